// SPDX-License-Identifier: Apache-2.0
#include "bench_comm_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include "base/json_writer.h"

namespace skein::app {
namespace {

constexpr int kPictureColumns = 64;
constexpr std::string_view kCsvHead = "transport,wire,algorithm,bytes,median_us,best_us";

bool SameCell(const CommRow& a, const CommRow& b) {
  return std::tie(a.transport, a.wire, a.algorithm, a.bytes) == std::tie(b.transport, b.wire, b.algorithm, b.bytes);
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

const CommRow* FindMpi(const std::vector<CommRow>& rows, std::size_t bytes) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const CommRow& row) { return row.algorithm == kMpiAllReduce && row.bytes == bytes; });
  return found == rows.end() ? nullptr : &*found;
}

std::string SizeText(std::size_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= 1024 && bytes % 1024 == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

// Values of a column of rows in order of appearance.
template <typename Take>
std::vector<std::string> Distinct(const std::vector<CommRow>& rows, Take take) {
  std::vector<std::string> values;
  for (const CommRow& row : rows) {
    const std::string value = take(row);
    if (!value.empty() && std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  return values;
}

char LetterOf(std::string_view algorithm) {
  if (algorithm == kMpiAllReduce) return 'M';
  if (algorithm == "reduce_scatter") return 's';
  if (algorithm == "halving_doubling") return '2';
  if (algorithm == "double_tree") return 't';
  if (algorithm == "auto") return '*';
  return algorithm.empty() ? '?' : algorithm[0];
}

// One line per size: a letter where each algorithm's time is.
std::string Picture(const std::vector<CommRow>& rows) {
  double low = rows.front().median_us, high = low;
  for (const CommRow& row : rows) {
    low = std::min(low, row.median_us);
    high = std::max(high, row.median_us);
  }
  const double first = std::floor(std::log10(std::max(low, 1e-3))), last = std::ceil(std::log10(std::max(high, 1e-3)));
  const double scale = (kPictureColumns - 1) / std::max(last - first, 1.0);
  std::string out;
  std::size_t at = 0;
  while (at < rows.size()) {
    const std::size_t bytes = rows[at].bytes;
    std::string line(kPictureColumns, ' ');
    for (double decade = first; decade <= last; ++decade) line[static_cast<std::size_t>((decade - first) * scale)] = '.';
    for (; at < rows.size() && rows[at].bytes == bytes; ++at) {
      line[static_cast<std::size_t>((std::log10(std::max(rows[at].median_us, 1e-3)) - first) * scale)] = LetterOf(rows[at].algorithm);
    }
    out += fmt::format("  {:>8} {}\n", SizeText(bytes), line);
  }
  std::string axis(kPictureColumns + 8, ' ');
  for (double decade = first; decade <= last; ++decade) {
    const std::string label = fmt::format("{:g}", std::pow(10, decade));
    axis.replace(static_cast<std::size_t>((decade - first) * scale), label.size(), label);
  }
  return out + fmt::format("  {:>8} {}\n", "us", axis.substr(0, axis.find_last_not_of(' ') + 1));
}

std::string TableOf(const std::vector<std::vector<CommRow>>& rounds, const std::vector<CommRow>& rows, const std::vector<std::string>& algorithms) {
  std::string out = fmt::format("  {:>8}", "");
  for (const std::string& algorithm : algorithms) out += fmt::format(" {:>16}", algorithm);
  const bool compared = FindMpi(rounds.front(), rows.front().bytes) != nullptr;
  out += compared ? fmt::format(" {:>16}\n", "best x MPI") : "\n";
  std::size_t at = 0;
  while (at < rows.size()) {
    const std::size_t bytes = rows[at].bytes;
    out += fmt::format("  {:>8}", SizeText(bytes));
    double ratio = 0;
    std::size_t end = at;
    while (end < rows.size() && rows[end].bytes == bytes) ++end;
    for (const std::string& algorithm : algorithms) {
      const auto found = std::find_if(rows.begin() + static_cast<std::ptrdiff_t>(at), rows.begin() + static_cast<std::ptrdiff_t>(end),
                                      [&](const CommRow& row) { return row.algorithm == algorithm; });
      if (found == rows.begin() + static_cast<std::ptrdiff_t>(end)) {
        out += fmt::format(" {:>16}", "");
        continue;
      }
      out += fmt::format(" {:>16.3f}", found->median_us);
      if (algorithm != kMpiAllReduce) ratio = std::max(ratio, TimesMpi(rounds, *found));
    }
    out += ratio > 0 ? fmt::format(" {:>16.2f}\n", ratio) : "\n";
    at = end;
  }
  return out;
}

template <typename T>
bool ParseNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::vector<CommRow> MergeRounds(const std::vector<std::vector<CommRow>>& rounds) {
  std::vector<CommRow> merged;
  for (const CommRow& cell : rounds.front()) {
    CommRow& row = merged.emplace_back(cell);
    std::vector<double> medians;
    for (const auto& round : rounds) {
      for (const CommRow& other : round) {
        if (!SameCell(cell, other)) continue;
        medians.push_back(other.median_us);
        row.best_us = std::min(row.best_us, other.best_us);
      }
    }
    row.median_us = Median(std::move(medians));
  }
  return merged;
}

double TimesMpi(const std::vector<std::vector<CommRow>>& rounds, const CommRow& row) {
  std::vector<double> ratios;
  for (const auto& round : rounds) {
    const CommRow* mpi = FindMpi(round, row.bytes);
    for (const CommRow& other : round) {
      if (mpi != nullptr && SameCell(row, other) && other.median_us > 0) ratios.push_back(mpi->median_us / other.median_us);
    }
  }
  return Median(std::move(ratios));
}

std::string CommCsv(const std::vector<CommRow>& rows) {
  std::string out = std::string(kCsvHead) + "\n";
  for (const CommRow& row : rows) {
    out += fmt::format("{},{},{},{},{:.4f},{:.4f}\n", row.transport, row.wire, row.algorithm, row.bytes, row.median_us, row.best_us);
  }
  return out;
}

Result<std::vector<CommRow>> CommFromCsv(std::string_view text) {
  std::vector<CommRow> rows;
  bool head = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    if (!head) {
      if (line != kCsvHead) return InvalidFile(fmt::format("rows of bench comm begin with '{}', found '{}'", kCsvHead, line.substr(0, 80)));
      head = true;
      continue;
    }
    std::vector<std::string_view> fields;
    for (std::size_t comma = 0; comma != std::string_view::npos; line.remove_prefix(std::min(comma + 1, line.size()))) {
      comma = line.find(',');
      fields.push_back(line.substr(0, comma));
    }
    CommRow row;
    if (fields.size() != 6 || !ParseNumber(fields[3], row.bytes) || !ParseNumber(fields[4], row.median_us) || !ParseNumber(fields[5], row.best_us)) {
      return InvalidFile("a row of bench comm has six fields, found another one");
    }
    row.transport = fields[0];
    row.wire = fields[1];
    row.algorithm = fields[2];
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string CommJson(const std::vector<std::vector<CommRow>>& rounds, const CommPlan& plan, std::string_view build_commit) {
  const std::vector<CommRow> rows = MergeRounds(rounds);
  JsonWriter json;
  json.BeginObject().Member("ranks", plan.ranks).Member("hosts", plan.hosts).Member("rounds", static_cast<int>(rounds.size()));
  json.Key("links").BeginArray();
  for (const std::string& transport : Distinct(rows, [](const CommRow& row) { return row.transport; })) {
    const LinkFit fit = FitLink(rows, transport);
    json.BeginObject().Member("transport", transport).Member("alpha_us", fit.alpha_us).Member("gigabytes_per_s", fit.gigabytes_per_s).EndObject();
  }
  json.EndArray().Key("rows").BeginArray();
  for (const CommRow& row : rows) {
    json.BeginObject().Member("transport", row.transport).Member("wire", row.wire).Member("algorithm", row.algorithm);
    json.Member("bytes", static_cast<std::uint64_t>(row.bytes)).Member("median_us", row.median_us).Member("best_us", row.best_us);
    const double times = row.algorithm == kMessage ? 0 : TimesMpi(rounds, row);
    json.Key("times_mpi_allreduce");
    times > 0 ? json.Value(times) : json.Null();
    json.EndObject();
  }
  json.EndArray().Member("build_commit", build_commit).EndObject();
  return json.Take() + "\n";
}

std::string CommText(const std::vector<std::vector<CommRow>>& rounds, const CommPlan& plan) {
  const std::vector<CommRow> rows = MergeRounds(rounds);
  std::string out = fmt::format("{} ranks{}, medians of {} round{}, us; sizes are of fp32\n", plan.ranks,
                                plan.hosts > 1 ? fmt::format(" as on {} hosts", plan.hosts) : "", rounds.size(), rounds.size() > 1 ? "s" : "");
  for (const std::string& transport : Distinct(rows, [](const CommRow& row) { return row.transport; })) {
    const LinkFit fit = FitLink(rows, transport);
    if (fit.gigabytes_per_s > 0) {
      out += fmt::format("{:8} a message takes {:.2f} us + size / {:.1f} GB/s\n", transport, fit.alpha_us, fit.gigabytes_per_s);
    }
  }
  for (const std::string& transport : Distinct(rows, [](const CommRow& row) { return row.transport; })) {
    for (const std::string& wire : Distinct(rows, [](const CommRow& row) { return row.wire; })) {
      std::vector<CommRow> some;
      for (const CommRow& row : rows) {
        if (row.transport == transport && row.wire == wire && row.algorithm != kMessage) some.push_back(row);
      }
      if (some.empty()) continue;
      std::stable_sort(some.begin(), some.end(), [](const CommRow& a, const CommRow& b) { return a.bytes < b.bytes; });
      const auto algorithms = Distinct(some, [](const CommRow& row) { return row.algorithm; });
      out += fmt::format("\n{}, wire {}\n", transport, wire) + TableOf(rounds, some, algorithms);
      for (const std::size_t bytes : plan.sizes) {
        const CommRow* mpi = FindMpi(rows, bytes);
        if (transport != "mpi" && mpi != nullptr) some.push_back(*mpi);
      }
      std::stable_sort(some.begin(), some.end(), [](const CommRow& a, const CommRow& b) { return a.bytes < b.bytes; });
      out += Picture(some);
    }
  }
  out += "\nletters: ";
  for (const std::string& algorithm : Distinct(rows, [](const CommRow& row) { return row.algorithm; })) {
    if (algorithm != kMessage) out += fmt::format("{} {}  ", LetterOf(algorithm), algorithm);
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

}  // namespace skein::app
