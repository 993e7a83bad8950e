// SPDX-License-Identifier: Apache-2.0
//
// pack_bench: packed bytes a second beside copying as many with the same threads, memory to memory, in turns; best of several.
//
//   pack_bench [THREADS] [K] [MEGABYTES]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/linear/linear_testing.h"
#include "kernels/threads/thread_pool.h"

namespace skein::kernels {
namespace {

constexpr int kRounds = 9;

double Seconds(ThreadPool& pool, int pieces, const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  pool.Run([&](Worker& worker) {
    const auto share = worker.ShareOf(pieces);
    for (int piece = share.begin; piece < share.end; ++piece) work(piece);
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void Measure(ThreadPool& pool, DType dtype, WeightFormat format, int k, std::size_t bytes_of_rows) {
  // A matrix of a few panels again and again in memory: what the numbers are does not matter.
  const testing::FileMatrix few = testing::RandomMatrix(dtype, 4 * kPanelWidth, k, 1);
  const auto outputs = static_cast<int>(bytes_of_rows / few.row_bytes / (4 * kPanelWidth) * (4 * kPanelWidth));
  const Buffer file = Buffer::Allocate(few.row_bytes * static_cast<std::size_t>(outputs)).value();
  Buffer rows = Buffer::Allocate(file.size()).value();
  for (std::size_t at = 0; at < rows.size(); at += few.bytes.size()) std::memcpy(rows.data() + at, few.bytes.data(), few.bytes.size());
  PackedLinear packed = PackedLinear::Allocate(format, outputs, MakeCells(k, 0)).value();
  Buffer copy = Buffer::Allocate(packed.bytes()).value();
  Buffer source = Buffer::Allocate(packed.bytes()).value();
  std::memset(source.data(), 1, source.size());
  double pack = 1e30, memcpy = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    pack = std::min(pack, Seconds(pool, packed.panels(), [&](int panel) {
      std::array<const std::byte*, kPanelWidth> of_panel;
      for (int n = 0; n < kPanelWidth; ++n) {
        of_panel[static_cast<std::size_t>(n)] = rows.data() + few.row_bytes * static_cast<std::size_t>(panel * kPanelWidth + n);
      }
      packed.PackPanel(panel, dtype, of_panel);
    }));
    memcpy = std::min(memcpy, Seconds(pool, packed.panels(), [&](int panel) {
      const std::size_t at = packed.panel_bytes() * static_cast<std::size_t>(panel);
      std::memcpy(copy.data() + at, source.data() + at, packed.panel_bytes());
    }));
  }
  const double bytes = static_cast<double>(packed.bytes()) * 1e-9;
  std::printf("%-6s to %-6.*s %8.2f GB/s, copied at %8.2f: %.2f\n", InfoOf(dtype).name.data(),
              static_cast<int>(NameOf(format).size()), NameOf(format).data(), bytes / pack, bytes / memcpy, memcpy / pack);
}

int Main(int argc, char** argv) {
  ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : AvailableCores());
  const int k = argc > 2 ? std::atoi(argv[2]) : 1536;
  const std::size_t megabytes = argc > 3 ? static_cast<std::size_t>(std::atoi(argv[3])) : 96;
  for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kBF16, DType::kF16, DType::kF32}) {
    Measure(pool, dtype, PackedFormatOf(dtype), k, megabytes << 20);
  }
  return 0;
}

}  // namespace
}  // namespace skein::kernels

int main(int argc, char** argv) { return skein::kernels::Main(argc, argv); }
