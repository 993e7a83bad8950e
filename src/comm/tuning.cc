// SPDX-License-Identifier: Apache-2.0
//
// The table of algorithms: a guess, and what a short measurement at start makes of it. Only algorithms that give the same bits are in it, so
// whatever is chosen changes the time alone. All members must choose alike, so member 0 measures for all.
#include <algorithm>
#include <chrono>
#include <vector>

#include "comm/communicator.h"

namespace skein::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSizes[] = {2 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10};
constexpr int kColumns = 512;
constexpr int kRepeatsMax = 200;

}  // namespace

Algorithm AlgorithmTable::For(std::size_t bytes) const {
  for (const Row& row : rows) {
    if (bytes <= row.bytes) return row.algorithm;
  }
  return rows.back().algorithm;
}

AlgorithmTable AlgorithmTable::Guess(const Group& group) {
  AlgorithmTable table;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const bool together = group.size() == 2 || kSizes[i] * static_cast<std::size_t>(group.size()) <= (64 << 10);
    const Algorithm one_host = together ? Algorithm::kOneShot : Algorithm::kReduceScatter;
    table.rows[i] = {kSizes[i], group.hosts.hosts() > 1 && group.hosts.hosts() < group.size() ? Algorithm::kHierarchical : one_host, 0};
  }
  return table;
}

Result<double> Communicator::MicrosecondsOf(Algorithm algorithm, const Reduction& reduction, int repeats) {
  SKEIN_RETURN_IF_ERROR(AllReduceBy(algorithm, reduction));
  SKEIN_RETURN_IF_ERROR(Barrier());
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < repeats; ++i) SKEIN_RETURN_IF_ERROR(AllReduceBy(algorithm, reduction));
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / repeats;
}

Status Communicator::Tune(std::chrono::nanoseconds budget) {
  if (size() == 1) return OkStatus();
  std::vector<Algorithm> candidates;
  for (const AlgorithmInfo& info : Algorithms()) {
    const bool sensible = info.algorithm != Algorithm::kHierarchical || group_.hosts.hosts() > 1;
    if (info.exact && sensible) candidates.push_back(info.algorithm);
  }
  const double share_us = std::chrono::duration<double, std::micro>(budget).count() / static_cast<double>(std::size(kSizes) * candidates.size());
  std::vector<float> x(kSizes[std::size(kSizes) - 1] / sizeof(float), 1.0f), out(x.size());
  AlgorithmTable table = table_;
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    const int rows = static_cast<int>(kSizes[i] / sizeof(float)) / kColumns;
    const Reduction reduction = {.x = x.data(), .out = out.data(), .rows = rows, .columns = kColumns};
    double best = 0;
    for (const Algorithm algorithm : candidates) {
      // One repetition tells how many the budget allows; everybody takes member 0's number.
      SKEIN_ASSIGN_OR_RETURN(const double first, MicrosecondsOf(algorithm, reduction, 1));
      int repeats = static_cast<int>(std::clamp(share_us / std::max(first, 0.01) - 3, 0.0, static_cast<double>(kRepeatsMax)));
      SKEIN_RETURN_IF_ERROR(Broadcast(0, std::as_writable_bytes(std::span(&repeats, 1))));
      double measured = first;
      if (repeats > 0) {
        SKEIN_ASSIGN_OR_RETURN(measured, MicrosecondsOf(algorithm, reduction, repeats));
      }
      if (best == 0 || measured < best) {
        best = measured;
        table.rows[i] = {kSizes[i], algorithm, measured};
      }
    }
  }
  SKEIN_RETURN_IF_ERROR(Broadcast(0, std::as_writable_bytes(std::span(table.rows))));
  table_ = table;
  return OkStatus();
}

}  // namespace skein::comm
