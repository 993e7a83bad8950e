// SPDX-License-Identifier: Apache-2.0
//
// Times attention: milliseconds per layer for prompts of 512 and 2048 tokens and for one token at 1024 positions, and
// the store of a prompt's keys and values. Shape and threads are arguments: attention_bench [heads kv_heads head_dim
// threads]; the default is SmolLM2's 9 heads, 3 KV heads, 64 dimensions, on 2 threads. Best of several runs.
// `attention_bench placement`: one token at 32K, with its quarters in order and anywhere.
#include <fmt/format.h>
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "kernels/attention/attention.h"
#include "tensor/buffer.h"

namespace skein::kernels {
namespace {

struct Options {
  int heads = 9, kv_heads = 3, head_dim = 64, threads = 2;
};

double BestSeconds(int runs, const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// Calls task(worker, index) for [0, count) on threads that spin between calls, so that starting them is not measured.
class Workers {
 public:
  explicit Workers(int count) : count_(count) {
    for (int i = 1; i < count; ++i) threads_.emplace_back([this, i] { Serve(i); });
  }
  ~Workers() {
    stop_ = true;
    ++round_;
  }
  void Run(int tasks, const std::function<void(int, int)>& task) {
    task_ = &task;
    tasks_ = tasks;
    next_ = 0;
    busy_ = count_ - 1;
    ++round_;
    Work(0);
    while (busy_ > 0) _mm_pause();
  }

 private:
  void Work(int worker) {
    _mm_setcsr(_mm_getcsr() | 0x8040);
    for (int i = next_++; i < tasks_; i = next_++) (*task_)(worker, i);
  }
  void Serve(int worker) {
    for (int seen = 0;;) {
      while (round_ == seen) _mm_pause();
      seen = round_;
      if (stop_) return;
      Work(worker);
      --busy_;
    }
  }
  int count_;
  const std::function<void(int, int)>* task_ = nullptr;
  int tasks_ = 0;
  std::atomic<int> next_{0}, busy_{0}, round_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::jthread> threads_;
};

// Keys and values of several layers, so that a layer's are not in L2 when its turn comes again.
class Layers {
 public:
  Layers(const AttentionKernel& kernel, const Options& options, KvType type, int layers, int positions, bool scattered = false)
      : layout{type, options.head_dim}, frames_(((positions + kFrameTokens - 1) / kFrameTokens)) {
    memory_ = Buffer::Allocate(static_cast<std::size_t>(layers * options.kv_heads * frames_) * layout.frame_bytes()).value();
    for (int b = 0; b < frames_ * kFrameBlocks; ++b) blocks_.push_back({static_cast<std::uint32_t>(b)});
    std::mt19937 random(1);
    if (scattered) std::shuffle(blocks_.begin(), blocks_.end(), random);
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<std::size_t>(2 * options.head_dim));
    for (int list = 0; list < layers * options.kv_heads; ++list) {
      for (int p = 0; p < positions; ++p) {
        for (float& v : x) v = normal(random);
        const std::uint32_t b = blocks_[static_cast<std::size_t>(p / kBlockTokens)].value;
        kernel.store(layout, Frame(list, static_cast<int>(b / kFrameBlocks)),
                     static_cast<int>(b % kFrameBlocks) * kBlockTokens + p % kBlockTokens, x.data(), x.data() + options.head_dim);
      }
    }
  }
  std::byte* Frame(int list, int frame) {
    return memory_.data() + static_cast<std::size_t>(list * frames_ + frame) * layout.frame_bytes();
  }
  const BlockId* blocks() const { return blocks_.data(); }

  KvLayout layout;

 private:
  int frames_;
  Buffer memory_;
  std::vector<BlockId> blocks_;
};

struct Run {
  const AttentionKernel& kernel;
  const Options& options;
  Workers& workers;
  std::vector<Buffer>& scratch;
};

std::vector<float> Queries(const Options& options, int tokens) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> queries(static_cast<std::size_t>(tokens * options.heads * options.head_dim));
  for (float& q : queries) q = normal(random);
  return queries;
}

double PromptSeconds(const Run& run, KvType type, int tokens) {
  const Options& o = run.options;
  Layers layers(run.kernel, o, type, 2, tokens);
  const std::vector<float> queries = Queries(o, tokens);
  std::vector<float> out(queries.size());
  const int group = o.heads / o.kv_heads, stride = o.heads * o.head_dim;
  const int step = std::max(1, run.kernel.preferred_rows / group);
  const int pieces = (tokens + step - 1) / step;
  int layer = 0;
  return BestSeconds(tokens > 1000 ? 5 : 15, [&] {
    layer = 1 - layer;
    run.workers.Run(pieces * o.kv_heads, [&](int worker, int task) {
      const int head = task % o.kv_heads, first = (pieces - 1 - task / o.kv_heads) * step;
      const std::ptrdiff_t offset = static_cast<std::ptrdiff_t>(first) * stride + head * group * o.head_dim;
      const AttentionBlock block = {.layout = layers.layout,
                                    .frames = layers.Frame(layer * o.kv_heads + head, 0),
                                    .blocks = layers.blocks(),
                                    .queries = queries.data() + offset,
                                    .query_stride = stride,
                                    .tokens = std::min(step, tokens - first),
                                    .group = group,
                                    .first_position = first,
                                    .scale = 1.0f / std::sqrt(static_cast<float>(o.head_dim))};
      run.kernel.attend(block, out.data() + offset, stride, run.scratch[static_cast<std::size_t>(worker)].data());
    });
  });
}

// One token against `positions` keys in each of many layers, splits over the threads, folded by the first.
double TokenSeconds(const Run& run, KvType type, int positions, int layer_count = 90, bool scattered = false) {
  const Options& o = run.options;
  Layers layers(run.kernel, o, type, layer_count, positions, scattered);
  const std::vector<float> queries = Queries(o, 1);
  std::vector<float> out(queries.size());
  const int group = o.heads / o.kv_heads;
  const int splits = (positions + kSplitKeys - 1) / kSplitKeys;
  const std::size_t piece = static_cast<std::size_t>(group * (2 + o.head_dim));
  std::vector<float> partials(piece * static_cast<std::size_t>(splits * o.kv_heads));
  const double seconds = BestSeconds(15, [&] {
    for (int layer = 0; layer < layer_count; ++layer) {
      const auto block_of = [&](int head) {
        return AttentionBlock{.layout = layers.layout,
                              .frames = layers.Frame(layer * o.kv_heads + head, 0),
                              .blocks = layers.blocks(),
                              .queries = queries.data() + head * group * o.head_dim,
                              .query_stride = o.heads * o.head_dim,
                              .tokens = 1,
                              .group = group,
                              .first_position = positions - 1,
                              .scale = 1.0f / std::sqrt(static_cast<float>(o.head_dim))};
      };
      run.workers.Run(o.kv_heads * splits, [&](int worker, int task) {
        const int split = task % splits;
        run.kernel.attend_splits(block_of(task / splits), split, split + 1,
                                 partials.data() + static_cast<std::size_t>(task) * piece,
                                 run.scratch[static_cast<std::size_t>(worker)].data());
      });
      for (int head = 0; head < o.kv_heads; ++head) {
        run.kernel.fold(block_of(head), splits, partials.data() + static_cast<std::size_t>(head * splits) * piece,
                        out.data() + head * group * o.head_dim, o.heads * o.head_dim);
      }
    }
  });
  return seconds / layer_count;
}

double StoreSeconds(const Run& run, KvType type, int tokens) {
  const Options& o = run.options;
  Layers layers(run.kernel, o, type, 1, tokens);
  const std::vector<float> x = Queries(o, tokens);
  return BestSeconds(9, [&] {
    for (int head = 0; head < o.kv_heads; ++head) {
      for (int p = 0; p < tokens; ++p) {
        const float* row = x.data() + static_cast<std::ptrdiff_t>(p) * o.heads * o.head_dim;
        run.kernel.store(layers.layout, layers.Frame(head, p / kFrameTokens), p % kFrameTokens, row, row + o.head_dim);
      }
    }
  });
}

void Measure(const Options& options, KernelPath path, Arithmetic arithmetic, KvType type, Workers& workers) {
  const AttentionKernel kernel = SelectAttention(path, arithmetic, type);
  if (kernel.name.starts_with("ref/")) return;
  std::vector<Buffer> scratch;
  for (int i = 0; i < options.threads; ++i) {
    scratch.push_back(Buffer::Allocate(kernel.scratch_bytes({type, options.head_dim})).value());
  }
  const Run run{kernel, options, workers, scratch};
  const double token = TokenSeconds(run, type, 1024);
  const double bytes = 1024.0 / kFrameTokens * static_cast<double>(KvLayout{type, options.head_dim}.frame_bytes()) * options.kv_heads;
  fmt::print("{:18} {:5} {:9.3f} {:9.3f} {:10.1f} {:7.1f} {:9.1f}\n", kernel.name, NameOf(type),
             1e3 * PromptSeconds(run, type, 512), 1e3 * PromptSeconds(run, type, 2048), 1e6 * token, bytes / token / 1e9,
             1e6 * StoreSeconds(run, type, 512));
}

// One token at 32K, quarters in order in whole frames against quarters anywhere.
void MeasurePlacement(const Options& options, KernelPath path, Arithmetic arithmetic, KvType type, Workers& workers) {
  const AttentionKernel kernel = SelectAttention(path, arithmetic, type);
  if (kernel.name.starts_with("ref/")) return;
  std::vector<Buffer> scratch;
  for (int i = 0; i < options.threads; ++i) {
    scratch.push_back(Buffer::Allocate(kernel.scratch_bytes({type, options.head_dim})).value());
  }
  const Run run{kernel, options, workers, scratch};
  const double in_order = TokenSeconds(run, type, 32768, 4);
  const double scattered = TokenSeconds(run, type, 32768, 4, /*scattered=*/true);
  fmt::print("{:18} {:5} {:12.0f} {:12.0f} {:8.2f}\n", kernel.name, NameOf(type), 1e6 * in_order, 1e6 * scattered, scattered / in_order);
}

}  // namespace
}  // namespace skein::kernels

int main(int argc, char** argv) {
  using namespace skein::kernels;  // NOLINT
  Options options;
  if (argc == 5) {
    options = {std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4])};
  }
  _mm_setcsr(_mm_getcsr() | 0x8040);
  const std::vector<KernelPath> paths = AvailablePaths();
  Workers workers(options.threads);
  fmt::print("{} heads, {} KV heads of {}, {} threads; per layer\n", options.heads, options.kv_heads, options.head_dim,
             options.threads);
  fmt::print("{:18} {:5} {:>9} {:>9} {:>10} {:>7} {:>9}\n", "kernel", "kv", "512 ms", "2048 ms", "1@1024 us", "GB/s", "store us");
  const bool placement = argc == 2 && std::string_view(argv[1]) == "placement";
  if (placement) fmt::print("one token at 32768, us: whole frames, scattered quarters, ratio\n");
  for (KernelPath path : paths) {
    for (KvType type : {KvType::kBf16, KvType::kInt8, KvType::kFp8, KvType::kF32}) {
      const Arithmetic arithmetic = type == KvType::kF32            ? Arithmetic::kExact
                                    : path == KernelPath::kAmx ? Arithmetic::kBf16T
                                                                    : Arithmetic::kBf16P;
      placement ? MeasurePlacement(options, path, arithmetic, type, workers) : Measure(options, path, arithmetic, type, workers);
    }
  }
  return 0;
}
