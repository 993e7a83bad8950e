// SPDX-License-Identifier: Apache-2.0
//
// linear_bench: speed of the linear kernels on this machine, weights never cache-warm by accident (copies of the matrix
// are visited in turn). Small row counts in GB/s of packed weights, larger ones in GFLOPS. Two threads unless told.
//
//   linear_bench [--threads N] [--pool-mb N] [--kernels PATH] [--format NAME] [--arithmetic NAME] [--shape KxN] [--rows M]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <thread>

#include "kernels/linear/linear_testing.h"

namespace skein::kernels {
namespace {

using testing::FileMatrix;

struct Options {
  int threads = 2;
  int pool_mb = 96;
  std::string path, format, arithmetic, shape, rows;
};

// A sink that keeps the numbers of one piece in first-level cache: users round or reduce results, so writing them out as
// fp32 would measure something else. (A copy of every result to second-level cache costs the tile kernels a fifth.)
struct Keep {
  std::vector<float> values;  // [64, 32]
  static void Take(void* context, int, int, int rows, const float* tile) {
    auto& self = *static_cast<Keep*>(context);
    std::memcpy(self.values.data(), tile, static_cast<std::size_t>(rows) * kPanelWidth * sizeof(float));
  }
};

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Seconds for one product, best of several rounds over all copies; of the slowest thread, in CPU time, so that
// neighbours on a shared machine do not count as our own work.
double Measure(const LinearKernel& kernel, const std::vector<PackedLinear>& copies, const Activations& input, int threads) {
  const int rows = input.rows();
  const PackedLinear& first = copies.front();
  std::vector<Keep> keeps(static_cast<std::size_t>(threads));
  for (Keep& keep : keeps) keep.values.resize(std::size_t{64} * kPanelWidth);
  std::vector<std::unique_ptr<testing::Scratch>> scratches;
  for (int t = 0; t < threads; ++t) scratches.push_back(std::make_unique<testing::Scratch>(kernel, first.cells()));
  double best = 1e30;
  const double begin_all = Seconds();
  for (int round = 0; round < 30 && (round < 3 || Seconds() - begin_all < 0.6); ++round) {
    std::vector<double> used(static_cast<std::size_t>(threads));
    const auto work = [&](int t) {
      testing::FlushDenormals();
      const double start = ThreadSeconds();
      const int begin = first.panels() * t / threads;
      const int end = first.panels() * (t + 1) / threads;
      for (const PackedLinear& weights : copies) {
        kernel.run(weights, begin, end, input, 0, rows, {Keep::Take, &keeps[static_cast<std::size_t>(t)]}, scratches[static_cast<std::size_t>(t)]->data());
      }
      used[static_cast<std::size_t>(t)] = ThreadSeconds() - start;
    };
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
    work(0);
    for (std::thread& other : others) other.join();
    best = std::min(best, *std::max_element(used.begin(), used.end()) / static_cast<double>(copies.size()));
  }
  return best;
}

void Bench(const Options& options, const LinearKernel& kernel, WeightFormat format, Arithmetic arithmetic, int k, int outputs) {
  const Cells cells = MakeCells(k, 0);
  const FileMatrix matrix = testing::RandomMatrix(testing::FileTypeOf(format), outputs, k, 1);
  std::vector<PackedLinear> copies;
  const std::size_t bytes = PackedLinear::PackedBytes(format, outputs, cells);
  const std::size_t count = std::max<std::size_t>(1, (static_cast<std::size_t>(options.pool_mb) << 20) / bytes);
  copies.reserve(count);
  Buffer memory = Buffer::Allocate(count * bytes).value();
  for (std::size_t i = 0; i < count; ++i) {
    copies.push_back(PackedLinear::Place(format, outputs, cells, memory.data() + i * bytes));
    if (i == 0) testing::PackInto(matrix, copies.front());
    if (i > 0) std::memcpy(memory.data() + i * bytes, memory.data(), bytes);
  }
  std::printf("%-24s %5dx%-6d", std::string(kernel.name).c_str(), k, outputs);
  for (const int rows : {1, 2, 4, 8, 16, 32, 64, 128, 512}) {
    if (!options.rows.empty() && std::to_string(rows) != options.rows) continue;
    Activations input(arithmetic, copies.front().cells(), rows);
    testing::PrepareRows(testing::RandomRows(rows, k, 2), input);
    // Large products are long enough without visiting every copy.
    const std::size_t used = rows > 16 ? std::min<std::size_t>(copies.size(), 8) : copies.size();
    std::vector<PackedLinear> some;
    const double seconds = [&] {
      if (used == copies.size()) return Measure(kernel, copies, input, options.threads);
      for (std::size_t i = 0; i < used; ++i) some.push_back(std::move(copies[i]));
      const double result = Measure(kernel, some, input, options.threads);
      for (std::size_t i = 0; i < used; ++i) copies[i] = std::move(some[i]);
      return result;
    }();
    const double flops = 2.0 * rows * k * outputs / seconds;
    if (rows <= 16) {
      std::printf("  %d: %5.1f GB/s", rows, static_cast<double>(bytes) / seconds * 1e-9);
    } else {
      std::printf("  %d: %6.0f GFLOPS", rows, flops * 1e-9);
    }
    std::fflush(stdout);
  }
  std::printf("\n");
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const std::string value = argv[i + 1];
    if (flag == "--threads") options.threads = std::atoi(value.c_str());
    if (flag == "--pool-mb") options.pool_mb = std::atoi(value.c_str());
    if (flag == "--kernels") options.path = value;
    if (flag == "--format") options.format = value;
    if (flag == "--arithmetic") options.arithmetic = value;
    if (flag == "--shape") options.shape = value;
    if (flag == "--rows") options.rows = value;
  }
  struct Shape {
    int k, outputs;
  };
  for (const KernelPath path : AvailablePaths()) {
    if (path == KernelPath::kRef && options.path != "ref") continue;
    if (!options.path.empty() && options.path != NameOf(path)) continue;
    for (const Arithmetic arithmetic : {Arithmetic::kBf16T, Arithmetic::kInt8G32, Arithmetic::kBf16P, Arithmetic::kExact}) {
      if (!options.arithmetic.empty() && options.arithmetic != NameOf(arithmetic)) continue;
      for (const WeightFormat format : {WeightFormat::kW4Min, WeightFormat::kW4, WeightFormat::kW8, WeightFormat::kBf16, WeightFormat::kF32}) {
        if (!HasArithmetic(format, arithmetic)) continue;
        if (!options.format.empty() && options.format != NameOf(format)) continue;
        for (const Shape& shape : {Shape{576, 1536}, Shape{1536, 576}, Shape{2048, 8192}}) {
          if (!options.shape.empty() && options.shape != std::to_string(shape.k) + "x" + std::to_string(shape.outputs)) continue;
          for (const LinearKernel& kernel : RunnableLinear(path, format, arithmetic)) Bench(options, kernel, format, arithmetic, shape.k, shape.outputs);
        }
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace skein::kernels

int main(int argc, char** argv) { return skein::kernels::Main(argc, argv); }
