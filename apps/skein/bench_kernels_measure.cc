// SPDX-License-Identifier: Apache-2.0
#include "bench_kernels_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <utility>

#include "formats/random_weights.h"
#include "kernels/attention/attention.h"
#include "kernels/ceilings/ceilings.h"
#include "kernels/linear/linear.h"
#include "kernels/rows/rows.h"
#include "model/memory.h"
#include "tensor/buffer.h"

namespace skein::app {
namespace {

using kernels::Arithmetic;
using kernels::WeightFormat;
using kernels::Worker;

double ThreadSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds of work(worker) on all workers: the processor time of the one that took longest, best of several. Neighbours on a shared
// machine only take away, and what they take is not our work.
template <typename Work>
double BestSeconds(kernels::ThreadPool& pool, Work work) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  std::vector<double> used(static_cast<std::size_t>(pool.threads()));
  double best = 1e30;
  const auto begin = now();
  for (int round = 0; round < 20 && (round < 4 || now() - begin < std::chrono::milliseconds(300)); ++round) {
    pool.Run([&](Worker& worker) {
      const double start = ThreadSeconds();
      work(worker);
      used[static_cast<std::size_t>(worker.index())] = ThreadSeconds() - start;
    });
    if (round > 0) best = std::min(best, *std::max_element(used.begin(), used.end()));  // the first one warms up
  }
  return best;
}

// The data cache of a level as the kernel describes it; `usual` where it says nothing.
std::size_t CacheBytes(int level, std::size_t usual) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    std::ifstream levels(folder + "level"), types(folder + "type"), sizes(folder + "size");
    int found = 0;
    std::string type;
    std::size_t kilobytes = 0;
    if (levels >> found && types >> type && sizes >> kilobytes && found == level && type != "Instruction") return kilobytes << 10;
  }
  return usual;
}

// Bytes a second of `threads` workers, each reading its own `share` of memory `times` over.
double ReadRateOf(kernels::ThreadPool& pool, const Buffer& memory, std::size_t share, int threads) {
  const auto times = std::max<std::size_t>(1, (std::size_t{256} << 20) / share);
  const double seconds = BestSeconds(pool, [&](Worker& worker) {
    if (worker.index() >= threads) return;
    for (std::size_t i = 0; i < times; ++i) {
      kernels::ReadInOrder(memory.data() + static_cast<std::size_t>(worker.index()) * share, share);
    }
  });
  return static_cast<double>(share) * static_cast<double>(times) * threads / seconds;
}

// The rate at which all workers read `memory`, before and after `work`: on a shared machine it changes from minute to minute.
template <typename Work>
double ReadRateAround(kernels::ThreadPool& pool, const Buffer& memory, Work work) {
  const std::size_t share = memory.size() / static_cast<std::size_t>(pool.threads()) / 4096 * 4096;
  const double before = ReadRateOf(pool, memory, share, pool.threads());
  work();
  return std::max(before, ReadRateOf(pool, memory, share, pool.threads()));
}

Result<Buffer> Touched(kernels::ThreadPool& pool, std::size_t bytes) {
  SKEIN_ASSIGN_OR_RETURN(Buffer memory, Buffer::Allocate(bytes));
  pool.Run([&](Worker& worker) {
    const std::size_t begin = bytes * static_cast<std::size_t>(worker.index()) / static_cast<std::size_t>(worker.count());
    const std::size_t end = bytes * static_cast<std::size_t>(worker.index() + 1) / static_cast<std::size_t>(worker.count());
    std::memset(memory.data() + begin, 0x5a, end - begin);
  });
  return memory;
}

std::string_view CeilingOf(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kInt8G32: return "int8";
    case Arithmetic::kBf16T:
    case Arithmetic::kBf16P: return "bf16";
    case Arithmetic::kExact: return "fp32";
  }
  return "fp32";
}

constexpr struct {
  DType dtype;
  WeightFormat format;
} kFormats[] = {{DType::kQ4_0, WeightFormat::kW4}, {DType::kQ4_1, WeightFormat::kW4Min}, {DType::kQ8_0, WeightFormat::kW8}, {DType::kBF16, WeightFormat::kBf16}};

// A sink that keeps the numbers of one piece in first-level cache, as users of results do.
struct Keep {
  std::array<float, std::size_t{64} * kernels::kPanelWidth> values;
  static void Take(void* context, int, int, int rows, const float* tile) {
    std::memcpy(static_cast<Keep*>(context)->values.data(), tile, static_cast<std::size_t>(rows) * kernels::kPanelWidth * sizeof(float));
  }
};

// Copies of a matrix of random weights, more than caches hold.
class Copies {
 public:
  static Result<Copies> Make(kernels::ThreadPool& pool, DType dtype, WeightFormat format, int k, int outputs, std::size_t pool_bytes) {
    Copies copies;
    const kernels::Cells cells = kernels::MakeCells(k, 0);
    const std::size_t bytes = kernels::PackedLinear::PackedBytes(format, outputs, cells);
    const std::size_t count = std::max<std::size_t>(2, pool_bytes / bytes);
    SKEIN_ASSIGN_OR_RETURN(copies.memory_, Buffer::Allocate(count * bytes));
    for (std::size_t i = 0; i < count; ++i) {
      copies.matrices.push_back(kernels::PackedLinear::Place(format, outputs, cells, copies.memory_.data() + i * bytes));
    }
    const std::uint64_t row_bytes = RowBytes(dtype, static_cast<std::uint64_t>(k)).value_or(0);
    std::vector<std::byte> rows(row_bytes * kernels::kPanelWidth);
    for (int panel = 0; panel < copies.matrices[0].panels(); ++panel) {
      formats::FillRandomBlocks(dtype, static_cast<std::uint64_t>(panel), 0, 0.05f, rows);
      std::array<const std::byte*, kernels::kPanelWidth> from{};
      for (std::size_t n = 0; n < from.size(); ++n) from[n] = rows.data() + n * row_bytes;
      copies.matrices[0].PackPanel(panel, dtype, from);
    }
    pool.Run([&](Worker& worker) {
      const auto share = worker.ShareOf(static_cast<int>(count) - 1);
      for (int i = share.begin; i < share.end; ++i) std::memcpy(copies.memory_.data() + static_cast<std::size_t>(i + 1) * bytes, copies.memory_.data(), bytes);
    });
    return copies;
  }
  const Buffer& memory() const { return memory_; }
  std::vector<kernels::PackedLinear> matrices;

 private:
  Buffer memory_;
};

std::vector<float> RandomNumbers(std::size_t count) {
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = static_cast<float>(static_cast<double>(formats::MixedBits(7, i) >> 11) * 0x1p-52 - 1.0);  // in [-1, 1)
  }
  return numbers;
}

double LinearSeconds(kernels::ThreadPool& pool, const kernels::LinearKernel& kernel, const std::vector<kernels::PackedLinear>& matrices,
                     const kernels::Activations& input, std::vector<Keep>& keeps, std::vector<Buffer>& scratch) {
  // As many products as take a while, each of another copy.
  const std::size_t products = input.rows() >= 32 ? 2 : matrices.size();
  const double seconds = BestSeconds(pool, [&](Worker& worker) {
    const auto index = static_cast<std::size_t>(worker.index());
    for (std::size_t i = 0; i < products; ++i) {
      const auto share = worker.ShareOf(matrices[i].panels());
      kernel.run(matrices[i], share.begin, share.end, input, 0, input.rows(), {Keep::Take, &keeps[index]}, scratch[index].data());
    }
  });
  return seconds / static_cast<double>(products);
}

struct AttentionShape {
  static constexpr int kHeads = 32, kKvHeads = 8, kHeadDim = 64, kGroup = kHeads / kKvHeads, kStride = kHeads * kHeadDim;
};

// Keys and values of `positions` tokens in several layers.
class StoredKeys {
 public:
  static Result<StoredKeys> Make(kernels::ThreadPool& pool, const kernels::AttentionKernel& kernel, int layers, int positions) {
    StoredKeys keys;
    keys.layout = {kernels::KvType::kBf16, AttentionShape::kHeadDim};
    keys.frames_ = (positions + kernels::kFrameTokens - 1) / kernels::kFrameTokens;
    for (int b = 0; b < keys.frames_ * kernels::kFrameBlocks; ++b) keys.blocks.push_back({static_cast<std::uint32_t>(b)});
    const int lists = layers * AttentionShape::kKvHeads;
    SKEIN_ASSIGN_OR_RETURN(keys.memory_, Buffer::Allocate(static_cast<std::size_t>(lists * keys.frames_) * keys.layout.frame_bytes()));
    const std::vector<float> x = RandomNumbers(4096);
    pool.Run([&](Worker& worker) {
      const auto share = worker.ShareOf(lists);
      for (int list = share.begin; list < share.end; ++list) {
        for (int p = 0; p < positions; ++p) {
          const float* numbers = x.data() + (list * 131 + p * 17) % 3900;
          kernel.store(keys.layout, keys.Frame(list) + static_cast<std::size_t>(p / kernels::kFrameTokens) * keys.layout.frame_bytes(),
                       p % kernels::kFrameTokens, numbers, numbers + AttentionShape::kHeadDim);
        }
      }
    });
    return keys;
  }
  const Buffer& memory() const { return memory_; }
  std::byte* Frame(int list) { return memory_.data() + static_cast<std::size_t>(list * frames_) * layout.frame_bytes(); }
  kernels::AttentionBlock Block(int list, const float* queries, int tokens, int first) {
    return {.layout = layout,
            .frames = Frame(list),
            .blocks = blocks.data(),
            .queries = queries,
            .query_stride = AttentionShape::kStride,
            .tokens = tokens,
            .group = AttentionShape::kGroup,
            .first_position = first,
            .scale = 1.0f / std::sqrt(static_cast<float>(AttentionShape::kHeadDim))};
  }
  kernels::KvLayout layout;
  std::vector<BlockId> blocks;

 private:
  int frames_ = 0;
  Buffer memory_;
};

Result<double> PromptSeconds(kernels::ThreadPool& pool, const kernels::AttentionKernel& kernel, int tokens, std::vector<Buffer>& scratch) {
  SKEIN_ASSIGN_OR_RETURN(StoredKeys keys, StoredKeys::Make(pool, kernel, 1, tokens));
  const std::vector<float> queries = RandomNumbers(static_cast<std::size_t>(tokens) * AttentionShape::kStride);
  std::vector<float> out(queries.size());
  const int step = std::max(1, kernel.preferred_rows / AttentionShape::kGroup);
  const int pieces = (tokens + step - 1) / step;
  return BestSeconds(pool, [&](Worker& worker) {
    worker.Barrier();
    if (worker.index() == 0) worker.ResetCounter(0);
    worker.Barrier();
    const int tasks = pieces * AttentionShape::kKvHeads;
    for (auto taken = worker.TakeFrom(0, tasks, 1); taken.begin < taken.end; taken = worker.TakeFrom(0, tasks, 1)) {
      const int head = taken.begin % AttentionShape::kKvHeads;
      const int first = (pieces - 1 - taken.begin / AttentionShape::kKvHeads) * step;  // the longest first
      const std::ptrdiff_t at = std::ptrdiff_t{first} * AttentionShape::kStride + head * AttentionShape::kGroup * AttentionShape::kHeadDim;
      kernel.attend(keys.Block(head, queries.data() + at, std::min(step, tokens - first), first), out.data() + at, AttentionShape::kStride,
                    scratch[static_cast<std::size_t>(worker.index())].data());
    }
  });
}

// One token of one layer; layers enough for keys to come from memory, which is read at `read_rate` meanwhile.
Result<double> TokenSeconds(kernels::ThreadPool& pool, const kernels::AttentionKernel& kernel, int positions, int layers, std::vector<Buffer>& scratch,
                            double& read_rate) {
  SKEIN_ASSIGN_OR_RETURN(StoredKeys keys, StoredKeys::Make(pool, kernel, layers, positions));
  const std::vector<float> queries = RandomNumbers(AttentionShape::kStride);
  const int splits = (positions + kernels::kSplitKeys - 1) / kernels::kSplitKeys;
  const auto piece = static_cast<std::size_t>(AttentionShape::kGroup * (2 + AttentionShape::kHeadDim));
  std::vector<float> partials(piece * static_cast<std::size_t>(splits) * AttentionShape::kKvHeads), out(AttentionShape::kStride);
  const auto all_layers = [&](Worker& worker) {
    for (int layer = 0; layer < layers; ++layer) {
      const auto block_of = [&](int head) {
        return keys.Block(layer * AttentionShape::kKvHeads + head,
                          queries.data() + head * AttentionShape::kGroup * AttentionShape::kHeadDim, 1, positions - 1);
      };
      const auto share = worker.ShareOf(splits * AttentionShape::kKvHeads);
      for (int task = share.begin; task < share.end; ++task) {
        kernel.attend_splits(block_of(task / splits), task % splits, task % splits + 1, partials.data() + static_cast<std::size_t>(task) * piece,
                             scratch[static_cast<std::size_t>(worker.index())].data());
      }
      worker.Barrier();
      const auto heads = worker.ShareOf(AttentionShape::kKvHeads);
      for (int head = heads.begin; head < heads.end; ++head) {
        kernel.fold(block_of(head), splits, partials.data() + static_cast<std::size_t>(head * splits) * piece,
                    out.data() + head * AttentionShape::kGroup * AttentionShape::kHeadDim, AttentionShape::kStride);
      }
      worker.Barrier();
    }
  };
  double seconds = 0;
  read_rate = ReadRateAround(pool, keys.memory(), [&] { seconds = BestSeconds(pool, all_layers); });
  return seconds / layers;
}

}  // namespace

void TakeLarger(const Ceilings& other, Ceilings& ceilings) {
  const auto take = [](const auto& from, auto& into) {
    for (std::size_t i = 0; i < into.size(); ++i) {
      into[i].one_thread = std::max(into[i].one_thread, from[i].one_thread);
      into[i].all = std::max(into[i].all, from[i].all);
    }
  };
  take(other.compute, ceilings.compute);
  take(other.read, ceilings.read);
}

void Judge(const Ceilings& ceilings, std::vector<KernelRate>& rates) {
  for (KernelRate& rate : rates) {
    double by_compute = 0;
    for (const ComputeRate& ceiling : ceilings.compute) {
      if (ceiling.name == rate.multiplied) by_compute = rate.operations / ceiling.all;
    }
    const double by_memory = rate.bytes / (rate.read_rate > 0 ? rate.read_rate : ceilings.read.back().all);
    rate.by_memory = by_memory > by_compute;
    rate.fraction = std::max(by_compute, by_memory) / rate.seconds;
  }
}

Result<Ceilings> MeasureCeilings(kernels::ThreadPool& pool) {
  Ceilings ceilings;
  for (const kernels::ComputeCeiling& ceiling : kernels::ComputeCeilings()) {
    constexpr std::int64_t kRounds = 200000;
    const auto rate = [&](int threads) {
      const double seconds = BestSeconds(pool, [&](Worker& worker) {
        if (worker.index() < threads) ceiling.run(kRounds);
      });
      return ceiling.operations * kRounds * threads / seconds;
    };
    ceilings.compute.push_back({std::string(ceiling.name), std::string(ceiling.instruction), rate(1), rate(pool.threads())});
  }
  const auto threads = static_cast<std::size_t>(pool.threads());
  const std::size_t l1 = CacheBytes(1, 32 << 10), l2 = CacheBytes(2, 1 << 20), l3 = CacheBytes(3, 32 << 20);
  // More than twice the last cache, as far as memory allows; who has less sees part of that cache's speed.
  const std::size_t dram = std::min<std::size_t>(std::max<std::size_t>(3 * l3, std::size_t{256} << 20), model::AvailableMemory().bytes / 4);
  const struct {
    const char* place;
    std::size_t share;
  } places[] = {{"L1", l1 / 2}, {"L2", l2 / 2}, {"L3", l3 / 2 / threads}, {"DRAM", dram / threads}};
  SKEIN_ASSIGN_OR_RETURN(const Buffer memory, Touched(pool, dram));
  for (const auto& [place, size] : places) {
    const std::size_t share = size / 4096 * 4096;
    ceilings.read.push_back({place, share, ReadRateOf(pool, memory, share, 1), ReadRateOf(pool, memory, share, pool.threads())});
  }
  return ceilings;
}

Result<std::vector<KernelRate>> MeasureLinear(kernels::ThreadPool& pool, kernels::KernelPath path, const LinearCases& cases) {
  std::vector<KernelRate> rates;
  std::vector<Keep> keeps(static_cast<std::size_t>(pool.threads()));
  for (const auto& [dtype, format] : kFormats) {
    if (std::find(cases.formats.begin(), cases.formats.end(), format) == cases.formats.end()) continue;
    const Arithmetic arithmetic = kernels::DefaultArithmetic(format, kernels::AvailablePaths().front());
    const kernels::LinearKernel kernel = kernels::SelectLinear(path, format, arithmetic);
    SKEIN_ASSIGN_OR_RETURN(const Copies copies, Copies::Make(pool, dtype, format, cases.k, cases.outputs, cases.pool_bytes));
    const kernels::PackedLinear& first = copies.matrices.front();
    std::vector<Buffer> scratch;
    for (int i = 0; i < pool.threads(); ++i) {
      SKEIN_ASSIGN_OR_RETURN(Buffer own, Buffer::Allocate(std::max<std::size_t>(kernel.scratch_bytes(first.cells()), 64)));
      scratch.push_back(std::move(own));
    }
    const std::vector<float> x = RandomNumbers(static_cast<std::size_t>(cases.k));
    for (const int rows : cases.rows) {
      kernels::Activations input(arithmetic, first.cells(), rows);
      for (int row = 0; row < rows; ++row) kernels::SelectRows(path).prepare(x.data(), row, input);
      KernelRate rate;
      rate.kernel = kernel.name;
      rate.multiplied = CeilingOf(arithmetic);
      rate.what = fmt::format("{} row{}", rows, rows == 1 ? "" : "s");
      const auto measure = [&] { rate.seconds = LinearSeconds(pool, kernel, copies.matrices, input, keeps, scratch); };
      if (rows <= 8) {
        rate.read_rate = ReadRateAround(pool, copies.memory(), measure);
      } else {
        measure();
      }
      rate.operations = 2.0 * rows * cases.k * cases.outputs;
      rate.bytes = static_cast<double>(first.bytes());
      rates.push_back(std::move(rate));
    }
  }
  return rates;
}

Result<std::vector<KernelRate>> MeasureAttention(kernels::ThreadPool& pool, kernels::KernelPath path) {
  const Arithmetic arithmetic = kernels::DefaultArithmetic(WeightFormat::kBf16, kernels::AvailablePaths().front());
  const kernels::AttentionKernel kernel = kernels::SelectAttention(path, arithmetic, kernels::KvType::kBf16);
  std::vector<Buffer> scratch;
  for (int i = 0; i < pool.threads(); ++i) {
    SKEIN_ASSIGN_OR_RETURN(Buffer own, Buffer::Allocate(kernel.scratch_bytes({kernels::KvType::kBf16, AttentionShape::kHeadDim})));
    scratch.push_back(std::move(own));
  }
  const double token_bytes = 2.0 * 2 * AttentionShape::kKvHeads * AttentionShape::kHeadDim;  // keys and values, a layer
  std::vector<KernelRate> rates;
  const auto add = [&](std::string what, double seconds, double pairs, double bytes, double read_rate) {
    KernelRate rate{.kernel = std::string(kernel.name), .what = std::move(what), .multiplied = "bf16", .seconds = seconds, .bytes = bytes, .read_rate = read_rate};
    rate.operations = 4.0 * AttentionShape::kHeads * AttentionShape::kHeadDim * pairs;  // a product with a key, one with a value
    rates.push_back(std::move(rate));
  };
  for (const int tokens : {512, 2048}) {
    SKEIN_ASSIGN_OR_RETURN(const double seconds, PromptSeconds(pool, kernel, tokens, scratch));
    add(fmt::format("prompt of {}", tokens), seconds, 0.5 * tokens * (tokens + 1.0), token_bytes * tokens, 0);
  }
  for (const int positions : {1024, 8192}) {
    const int layers = static_cast<int>(std::min(128.0, std::max(2.0, 256e6 / (token_bytes * positions))));
    double read_rate = 0;
    SKEIN_ASSIGN_OR_RETURN(const double seconds, TokenSeconds(pool, kernel, positions, layers, scratch, read_rate));
    add(fmt::format("token at {}", positions), seconds, positions, token_bytes * positions, read_rate);
  }
  return rates;
}

}  // namespace skein::app
