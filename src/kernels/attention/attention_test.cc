// SPDX-License-Identifier: Apache-2.0
//
// attention: every path against ref bit for bit, ref against double precision, and the promises that batching and
// paging rest on: a row's bits come from its own query and keys only.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/attention/attention_paths.h"
#include "kernels/attention/frame.h"
#include "kernels/cpu.h"
#include "tensor/e4m3.h"

namespace skein::kernels {
namespace {

struct Case {
  Arithmetic arithmetic;
  KvType type;
};
const Case kCases[] = {{Arithmetic::kBf16T, KvType::kBf16}, {Arithmetic::kBf16T, KvType::kInt8},
                       {Arithmetic::kBf16P, KvType::kBf16}, {Arithmetic::kBf16P, KvType::kInt8},
                       {Arithmetic::kBf16T, KvType::kFp8},  {Arithmetic::kBf16P, KvType::kFp8},
                       {Arithmetic::kExact, KvType::kF32}};

struct Shape {
  int head_dim, group, first_position, tokens;
};

std::vector<float> Random(std::mt19937& random, std::size_t n, float deviation = 1.0f) {
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  return x;
}

// Memory aligned to 64 bytes.
class Aligned {
 public:
  explicit Aligned(std::size_t bytes, int fill = 0) : memory_(bytes + 64) {
    std::memset(memory_.data(), fill, memory_.size());
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    data_ = memory_.data() + (64 - address % 64) % 64;
  }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }

 private:
  std::vector<std::byte> memory_;
  std::byte* data_ = nullptr;
};

// One sequence of one KV head: queries, keys and values of all positions, and frames filled by a kernel's store. Its
// quarters stand in order, or anywhere among twice as many.
struct Sequence {
  Sequence(const AttentionKernel& kernel, KvType type, Shape s, unsigned seed, int fill = 0, bool scattered = false)
      : shape(s) {
    std::mt19937 random(seed);
    layout = {type, s.head_dim};
    positions = s.first_position + s.tokens;
    const auto d = static_cast<std::size_t>(s.head_dim);
    k = Random(random, static_cast<std::size_t>(positions) * d, 1.5f);
    v = Random(random, static_cast<std::size_t>(positions) * d);
    queries = Random(random, static_cast<std::size_t>(s.tokens * s.group) * d, 1.5f);
    frame_count = static_cast<std::size_t>((positions + kFrameTokens - 1) / kFrameTokens * (scattered ? 2 : 1));
    frames = std::make_unique<Aligned>(frame_count * layout.frame_bytes(), fill);
    for (std::uint32_t b = 0; b < frame_count * kFrameBlocks; ++b) blocks.push_back({b});
    if (scattered) std::shuffle(blocks.begin(), blocks.end(), random);
    for (int p = 0; p < positions; ++p) {
      const std::size_t row = static_cast<std::size_t>(p) * d;
      const std::uint32_t b = blocks[static_cast<std::size_t>(p / kBlockTokens)].value;
      kernel.store(layout, Frame(b / kFrameBlocks),
                   static_cast<int>(b % kFrameBlocks) * kBlockTokens + p % kBlockTokens, k.data() + row,
                   v.data() + row);
    }
  }
  std::byte* Frame(std::size_t index) const { return frames->data() + index * layout.frame_bytes(); }

  AttentionBlock Block(int first_token, int tokens) const {
    return {.layout = layout,
            .frames = frames->data(),
            .blocks = blocks.data(),
            .queries = queries.data() + first_token * shape.group * shape.head_dim,
            .query_stride = shape.group * shape.head_dim,
            .tokens = tokens,
            .group = shape.group,
            .first_position = shape.first_position + first_token,
            .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim))};
  }
  AttentionBlock Whole() const { return Block(0, shape.tokens); }

  // The chunk in blocks of `step` tokens.
  std::vector<float> Attend(const AttentionKernel& kernel, int step) const {
    const std::ptrdiff_t stride = shape.group * shape.head_dim;
    std::vector<float> out(static_cast<std::size_t>(shape.tokens * stride), -77.0f);
    Aligned scratch(kernel.scratch_bytes(layout), 0xff);
    for (int token = 0; token < shape.tokens; token += step) {
      const int count = std::min(step, shape.tokens - token);
      kernel.attend(Block(token, count), out.data() + token * stride, stride, scratch.data());
    }
    return out;
  }

  Shape shape;
  KvLayout layout;
  int positions = 0;
  std::vector<float> k, v, queries;
  std::size_t frame_count = 0;
  std::unique_ptr<Aligned> frames;
  std::vector<BlockId> blocks;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Attention : public testing::Test {
 protected:
  void SetUp() override { _mm_setcsr(_mm_getcsr() | 0x8040); }
};

// The kernels that this machine can run, also those that are chosen on other machines only.
std::vector<AttentionKernel> FastKernels(const Case& c) {
  std::vector<AttentionKernel> kernels;
  for (KernelPath path : AvailablePaths()) {
    const AttentionKernel kernel = SelectAttention(path, c.arithmetic, c.type);
    if (!kernel.name.starts_with("ref/")) kernels.push_back(kernel);
#if defined(__x86_64__)
    if (path == KernelPath::kAvx512Vnni && c.arithmetic == Arithmetic::kBf16P) {
      kernels.push_back(AttentionAvx512(c.arithmetic));
      if (Cpu().avx512_vbmi) kernels.push_back(AttentionAvx512Vbmi());
      if (Cpu().avx512_vbmi && Cpu().avx512_bf16) kernels.push_back(AttentionAvx512Bf16());
    }
#endif
  }
  return kernels;
}

const Shape kShapes[] = {{64, 3, 0, 1},    {64, 3, 0, 40},  {64, 3, 250, 13}, {64, 1, 1023, 1}, {64, 3, 600, 1},
                         {16, 1, 0, 17},   {24, 2, 30, 9},  {32, 4, 100, 5},  {40, 3, 15, 3},   {48, 8, 255, 2},
                         {80, 1, 500, 17}, {96, 5, 63, 3},  {128, 7, 300, 2}, {256, 2, 270, 2}, {64, 1, 0, 70},
                         {128, 1, 13, 35}, {64, 8, 511, 2}, {32, 1, 0, 130}};

// Otherwise an answer would depend on the processor that it was computed on.
TEST_F(Attention, PathsGiveTheSameBits) {
  for (const Case& c : kCases) {
    const AttentionKernel ref = SelectAttention(KernelPath::kRef, c.arithmetic, c.type);
    for (const Shape& shape : kShapes) {
      const Sequence sequence(ref, c.type, shape, 11);
      const std::vector<float> wanted = sequence.Attend(ref, shape.tokens);
      for (const AttentionKernel& fast : FastKernels(c)) {
        SCOPED_TRACE(testing::Message() << fast.name << " " << NameOf(c.type) << " d " << shape.head_dim << " group "
                                        << shape.group << " at " << shape.first_position << "+" << shape.tokens);
        const Sequence stored(fast, c.type, shape, 11);
        for (std::size_t i = 0; i < stored.frame_count; ++i) {
          EXPECT_EQ(std::memcmp(stored.Frame(i), sequence.Frame(i), stored.layout.frame_bytes()), 0) << "frame " << i;
        }
        EXPECT_TRUE(SameBits(stored.Attend(fast, shape.tokens), wanted));
      }
    }
  }
}

// Otherwise a token's bits would change with the chunk that it came in, or with its neighbours.
TEST_F(Attention, ChunksChangeNoBit) {
  for (const Case& c : kCases) {
    for (KernelPath path : AvailablePaths()) {
      const AttentionKernel kernel = SelectAttention(path, c.arithmetic, c.type);
      const bool slow = kernel.name.starts_with("ref/");
      const Shape shape = slow ? Shape{24, 2, 20, 14} : Shape{64, 3, 201, 110};
      const Sequence sequence(kernel, c.type, shape, 3);
      const std::vector<float> whole = sequence.Attend(kernel, shape.tokens);
      for (int step : {1, 7, 64})
        EXPECT_TRUE(SameBits(sequence.Attend(kernel, step), whole)) << kernel.name << " " << step;
    }
  }
}

// Otherwise long contexts, split over threads, would give other bits than short ones.
TEST_F(Attention, SplitsFoldToTheSameBits) {
  for (const Case& c : kCases) {
    for (KernelPath path : AvailablePaths()) {
      const AttentionKernel kernel = SelectAttention(path, c.arithmetic, c.type);
      for (const Shape& shape : {Shape{40, 3, 1000, 1}, Shape{64, 3, 505, 12}}) {
        const Sequence sequence(kernel, c.type, shape, 5);
        const AttentionBlock block = sequence.Whole();
        const int splits = (sequence.positions + kSplitKeys - 1) / kSplitKeys;
        const int piece = shape.tokens * shape.group * (2 + shape.head_dim);
        std::vector<float> partials(static_cast<std::size_t>(splits * piece));
        Aligned scratch(kernel.scratch_bytes(block.layout), 0xff);
        kernel.attend_splits(block, 1, splits, partials.data() + piece, scratch.data());
        kernel.attend_splits(block, 0, 1, partials.data(), scratch.data());
        std::vector<float> out(static_cast<std::size_t>(shape.tokens * shape.group * shape.head_dim));
        kernel.fold(block, splits, partials.data(), out.data(), shape.group * shape.head_dim);
        EXPECT_TRUE(SameBits(out, sequence.Attend(kernel, shape.tokens))) << kernel.name;
      }
    }
  }
}

// Otherwise an answer would depend on where the pool found room for its keys: quarters apart, out of order, beside
// those of others (here: NaN).
TEST_F(Attention, PlacementChangesNoBit) {
  for (const Case& c : kCases) {
    for (KernelPath path : AvailablePaths()) {
      const AttentionKernel kernel = SelectAttention(path, c.arithmetic, c.type);
      for (const Shape& shape :
           {Shape{32, 2, 0, 40}, Shape{64, 3, 270, 20}, Shape{64, 3, 299, 1}, Shape{80, 1, 40, 9}}) {
        for (unsigned seed : {1u, 2u, 3u}) {
          const Sequence ordered(kernel, c.type, shape, seed);
          const Sequence scattered(kernel, c.type, shape, seed, /*fill=*/0xff, /*scattered=*/true);
          EXPECT_TRUE(SameBits(scattered.Attend(kernel, shape.tokens), ordered.Attend(kernel, shape.tokens)))
              << kernel.name << " " << NameOf(c.type) << " seed " << seed << " at " << shape.first_position;
        }
      }
    }
  }
}

// Otherwise a copied block would hold something else than the one it was copied from, or more than it.
TEST_F(Attention, CopiedQuartersGiveTheSameBits) {
  for (const Case& c : kCases) {
    const AttentionKernel kernel = SelectAttention(AvailablePaths().front(), c.arithmetic, c.type);
    const Shape shape{64, 3, 100, 3};
    Sequence original(kernel, c.type, shape, 4);
    Sequence copied(kernel, c.type, shape, 4, /*fill=*/0xff, /*scattered=*/true);
    for (std::size_t p = 0; p < 7; ++p) {
      const std::uint32_t from = copied.blocks[p].value, to = copied.blocks[p + 7].value;
      CopyQuarter(copied.layout, copied.Frame(from / kFrameBlocks),
                  static_cast<int>(from % kFrameBlocks) * kBlockTokens, copied.Frame(to / kFrameBlocks),
                  static_cast<int>(to % kFrameBlocks) * kBlockTokens);
    }
    std::rotate(copied.blocks.begin(), copied.blocks.begin() + 7, copied.blocks.begin() + 14);
    EXPECT_TRUE(SameBits(copied.Attend(kernel, shape.tokens), original.Attend(kernel, shape.tokens))) << kernel.name;
  }
}

// Otherwise what an earlier sequence left in a reused frame, even NaN, would reach a later one.
TEST_F(Attention, LeftoversInFramesDoNotMatter) {
  for (const Case& c : kCases) {
    for (KernelPath path : AvailablePaths()) {
      const AttentionKernel kernel = SelectAttention(path, c.arithmetic, c.type);
      for (int tokens : {1, 3, 16, 17, 33, 63}) {
        const Shape shape{32, 2, 0, tokens};
        const Sequence clean(kernel, c.type, shape, 9, 0), dirty(kernel, c.type, shape, 9, 0xff);
        EXPECT_TRUE(SameBits(clean.Attend(kernel, tokens), dirty.Attend(kernel, tokens)))
            << kernel.name << " " << tokens;
      }
    }
  }
}

// Otherwise absent keys of a reused quarter would be leftovers instead of zeros.
TEST_F(Attention, StoreClearsTheQuarter) {
  for (const Case& c : kCases) {
    for (KernelPath path : AvailablePaths()) {
      const AttentionKernel kernel = SelectAttention(path, c.arithmetic, c.type);
      const KvLayout layout{c.type, 40};
      const std::vector<float> ones(40, 1.0f);
      Aligned frame(layout.frame_bytes(), 0xff);
      kernel.store(layout, frame.data(), 16, ones.data(), ones.data());
      int zeros = 0;
      for (std::size_t i = 0; i < layout.frame_bytes(); ++i) zeros += frame.data()[i] == std::byte{0} ? 1 : 0;
      // A quarter of the places but for the 40 + 40 elements written (and two scales).
      const int element = c.type == KvType::kBf16 ? 2 : HasScales(c.type) ? 1 : 4;
      const int quarter = 2 * 16 * 64 * element + (HasScales(c.type) ? 2 * 16 * 4 : 0);
      const int written = 80 * element + (HasScales(c.type) ? 8 : 0);
      EXPECT_GE(zeros, quarter - written) << kernel.name;
      EXPECT_LE(zeros, quarter) << kernel.name;
      kernel.store(layout, frame.data(), 17, ones.data(), ones.data());
      int fewer = 0;
      for (std::size_t i = 0; i < layout.frame_bytes(); ++i) fewer += frame.data()[i] == std::byte{0} ? 1 : 0;
      EXPECT_LE(fewer, zeros - written / 2) << kernel.name;
    }
  }
}

// Otherwise a cache in FP8 would hold other numbers on another processor: every E4M3 number, what lies halfway to the
// next, and what lies just beside that, in vectors whose largest is 448, so that the scale is 1.
TEST_F(Attention, StoreRoundsToE4M3) {
  std::vector<float> values;
  for (int code = 0; code < 0x7e; ++code) {
    const float x = FloatFromE4M3(static_cast<std::uint8_t>(code)),
                next = FloatFromE4M3(static_cast<std::uint8_t>(code + 1));
    const float half = (x + next) / 2;
    for (const float y : {x, half, std::nextafter(half, x), std::nextafter(half, next)})
      values.push_back(code % 3 == 0 ? -y : y);
  }
  constexpr std::size_t kDim = 252;
  const KvLayout layout{KvType::kFp8, kDim};
  for (std::size_t begin = 0; begin < values.size(); begin += kDim - 1) {
    std::vector<float> x(kDim, kE4M3Max);
    std::copy(values.begin() + static_cast<std::ptrdiff_t>(begin),
              values.begin() + static_cast<std::ptrdiff_t>(std::min(values.size(), begin + kDim - 1)), x.begin());
    Aligned wanted(layout.frame_bytes());
    SelectAttention(KernelPath::kRef, Arithmetic::kBf16P, KvType::kFp8)
        .store(layout, wanted.data(), 0, x.data(), x.data());
    EXPECT_EQ(static_cast<std::uint8_t>(wanted.data()[KeyPlace(layout.padded_head_dim(), 0, 3)]), E4M3FromFloat(x[3]));
    for (const AttentionKernel& fast : FastKernels({Arithmetic::kBf16P, KvType::kFp8})) {
      Aligned stored(layout.frame_bytes());
      fast.store(layout, stored.data(), 0, x.data(), x.data());
      EXPECT_EQ(std::memcmp(stored.data(), wanted.data(), layout.frame_bytes()), 0) << fast.name << " from " << begin;
    }
  }
}

// Otherwise the attention would compute something else than softmax(q Kt scale) V. Against double precision over the
// values as stored and queries as rounded what remains is the rounding of probabilities (2^-8 of each for bf16, so at
// most that share of the sum of p |v|) and fp32 sums, far below that.
TEST_F(Attention, MatchesDoublePrecision) {
  for (const Case& c : kCases) {
    for (const Shape& shape : {Shape{64, 3, 290, 3}, Shape{24, 2, 0, 20}, Shape{128, 1, 70, 2}}) {
      const AttentionKernel ref = SelectAttention(KernelPath::kRef, c.arithmetic, c.type);
      const Sequence s(ref, c.type, shape, 21);
      const std::vector<float> out = s.Attend(ref, shape.tokens);
      const int d = shape.head_dim;
      const bool exact = c.type == KvType::kF32;
      const auto bf16 = [&](float x) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
        return exact ? x : std::bit_cast<float>((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u);
      };
      const float scale = s.Whole().scale * 1.44269504f;  // queries carry the scale, scores are exponents of two
      // A stored vector as attention reads it.
      const auto stored = [&](const std::vector<float>& x, int position, int i) -> double {
        const float* row = x.data() + static_cast<std::size_t>(position) * static_cast<std::size_t>(d);
        if (!HasScales(c.type)) return bf16(row[i]);
        float largest = 0.0f;
        for (int j = 0; j < d; ++j) largest = std::max(largest, std::fabs(row[j]));
        if (c.type == KvType::kFp8) {
          return static_cast<double>(FloatFromE4M3(E4M3FromFloat(row[i] * (kE4M3Max / largest)))) *
                 static_cast<double>(largest / kE4M3Max);
        }
        return std::nearbyint(row[i] * (127.0f / largest)) * static_cast<double>(largest / 127.0f);
      };
      for (int row = 0; row < shape.tokens * shape.group; ++row) {
        const int visible = shape.first_position + row / shape.group + 1;
        std::vector<double> p(static_cast<std::size_t>(visible));
        double highest = -1e300, sum = 0.0;
        for (int key = 0; key < visible; ++key) {
          double score = 0.0;
          for (int i = 0; i < d; ++i)
            score += bf16(s.queries[static_cast<std::size_t>(row * d + i)] * scale) * stored(s.k, key, i);
          p[static_cast<std::size_t>(key)] = score;
          highest = std::max(highest, p[static_cast<std::size_t>(key)]);
        }
        for (double& x : p) sum += x = std::exp2(x - highest);
        for (int i = 0; i < d; i += 5) {
          double wanted = 0.0, magnitude = 0.0;
          for (int key = 0; key < visible; ++key) {
            const double term = p[static_cast<std::size_t>(key)] * stored(s.v, key, i) / sum;
            wanted += term;
            magnitude += std::fabs(term);
          }
          EXPECT_NEAR(out[static_cast<std::size_t>(row * d + i)], wanted,
                      magnitude * (exact ? 0x1p-18 : 0x1p-8 + 0x1p-14))
              << ref.name << " " << NameOf(c.type) << " row " << row << " of d " << d;
        }
      }
    }
  }
}

}  // namespace
}  // namespace skein::kernels
