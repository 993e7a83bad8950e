// SPDX-License-Identifier: Apache-2.0
//
// Engines of attention (attention_flash_impl.h) on vectors: 16 keys, or 16 columns, in the lanes, a block of rows in
// registers. A Product says how one step multiplies: pairs of bf16 or single fp32. Included by the attention units of
// avx2 and avx512, which their flags make different.
#pragma once

#include "kernels/attention/attention_flash_impl.h"

namespace skein::kernels {
namespace {

// Pairs of bf16 by two FMAs, the odd product first: the sums of vdpbf16ps without the instruction. Left operands are
// kept widened.
struct PairsByFma {
  using Element = float;
  static constexpr bool kSlow = true;  // its chains take longer than memory does
  static constexpr int kDepth = 2;     // elements of the inner dimension that a step takes
  struct Right {
    V16 even, odd;
  };
  SKEIN_V16_INLINE Right LoadRight(const std::byte* place) {
    const V16 pairs = Load(reinterpret_cast<const float*>(place));
    return {ShiftLeftBits<16>(pairs), UpperHalfBits(pairs)};
  }
  SKEIN_V16_INLINE V16 Step(const float* left, const Right& right, V16 sum) {
    return Fma(Set(left[0]), right.even, Fma(Set(left[1]), right.odd, sum));
  }
  SKEIN_V16_INLINE void StoreElements(float* place, V16 x) { Store(place, FromBf16(ToBf16(x))); }
  SKEIN_V16_INLINE void StorePair(float* place, V16 x, V16 y) { StoreElements(place, x), StoreElements(place + 16, y); }
};

// Single fp32 products, nothing rounded.
struct SinglesByFma {
  using Element = float;
  static constexpr bool kSlow = false;
  static constexpr int kDepth = 1;
  struct Right {
    V16 value;
  };
  SKEIN_V16_INLINE Right LoadRight(const std::byte* place) { return {Load(reinterpret_cast<const float*>(place))}; }
  SKEIN_V16_INLINE V16 Step(const float* left, const Right& right, V16 sum) {
    return Fma(Set(left[0]), right.value, sum);
  }
  SKEIN_V16_INLINE void StoreElements(float* place, V16 x) { Store(place, x); }
  SKEIN_V16_INLINE void StorePair(float* place, V16 x, V16 y) { StoreElements(place, x), StoreElements(place + 16, y); }
};

#if defined(__AVX512BF16__)
// Pairs of bf16 by vdpbf16ps.
struct PairsByDot {
  using Element = std::uint16_t;
  static constexpr bool kSlow = false;
  static constexpr int kDepth = 2;
  struct Right {
    __m512i pairs;
  };
  SKEIN_V16_INLINE Right LoadRight(const std::byte* place) { return {_mm512_loadu_si512(place)}; }
  SKEIN_V16_INLINE V16 Step(const std::uint16_t* left, const Right& right, V16 sum) {
    std::int32_t pair;
    std::memcpy(&pair, left, 4);
    return {_mm512_dpbf16_ps(sum.v, (__m512bh)right.pairs, (__m512bh)_mm512_set1_epi32(pair))};
  }
  SKEIN_V16_INLINE void StoreElements(std::uint16_t* place, V16 x) { StoreBf16(place, x); }
  SKEIN_V16_INLINE void StorePair(std::uint16_t* place, V16 x, V16 y) {
    _mm512_storeu_si512(place, (__m512i)_mm512_cvtne2ps_pbh(y.v, x.v));
  }
};
#endif

// Sums of kRows x kWide vectors: left rows `left_stride` elements apart, right operands from kWide places, each step
// `right_step` bytes further.
template <typename Product, int kRows, int kWide>
SKEIN_V16_INLINE void Accumulate(const typename Product::Element* left, int left_stride, int steps,
                                 const std::byte* const* right, int right_step, V16 (&sums)[kRows][kWide]) {
  const std::byte* places[kWide];
#pragma GCC unroll 4
  for (int w = 0; w < kWide; ++w) places[w] = right[w];
  for (int step = 0; step < steps; ++step) {
    typename Product::Right operands[kWide];
#pragma GCC unroll 4
    for (int w = 0; w < kWide; ++w) {
      operands[w] = Product::LoadRight(places[w]);
      places[w] += right_step;
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const typename Product::Element* row = left + r * left_stride + step * Product::kDepth;
#pragma GCC unroll 4
      for (int w = 0; w < kWide; ++w) sums[r][w] = Product::Step(row, operands[w], sums[r][w]);
    }
  }
}

// Calls take(rows, first) with rows = kMost as long as there are so many, then with powers of two.
template <int kMost, typename Take>
SKEIN_V16_INLINE void ForRowBlocks(int rows, Take take) {
  int row = 0;
  for (; row + kMost <= rows; row += kMost) take(std::integral_constant<int, kMost>(), row);
  if constexpr (kMost > 4) {
    if (rows - row >= 4) take(std::integral_constant<int, 4>(), row), row += 4;
  }
  if (rows - row == 3) take(std::integral_constant<int, 3>(), row), row += 3;
  if (rows - row == 2) take(std::integral_constant<int, 2>(), row), row += 2;
  if (rows - row == 1) take(std::integral_constant<int, 1>(), row);
}

template <typename Product, int kRowBlock, int kWide, bool kIsExact>
struct VectorEngine {
  using Element = typename Product::Element;
  static constexpr bool kExact = kIsExact;
  static constexpr bool kWholeValueTiles = false;
  static constexpr int kGroupRows = 32;
  static constexpr bool kFewApart = !kIsExact;
  static constexpr bool kTouchesKeys = kWide > 1 && Product::kSlow;
  static constexpr int kStepBytes = 64;

  static int QueryPlace(int d, int row, int dim) { return row * d + dim; }
  static constexpr int kProbabilityStep = 32;
  static int ProbabilityPlace(int row) { return row * kSplitKeys; }
  SKEIN_V16_INLINE void StoreElements(Element* place, V16 x) { Product::StoreElements(place, x); }

  SKEIN_V16_INLINE void StorePair(Element* place, V16 x, V16 y) { Product::StorePair(place, x, y); }
  static void Begin(int) {}
  static void StayAwake() {}

  static void Scores(const Element* queries, int rows, int d, const std::byte* const* keys, int tiles, float* scores) {
    ScoresOf<kWide>(queries, rows, d, keys, tiles, scores);
  }
  static void ScoresInOrder(const Element* queries, int rows, int d, const std::byte* const* keys, int tiles,
                            float* scores) {
    ScoresOf<1>(queries, rows, d, keys, tiles, scores);
  }
  // Up to four rows take four tiles at once where registers allow: enough sums that do not wait for each other.
  static void ScoresNear(const Element* queries, int rows, int d, const std::byte* const* keys, int tiles,
                         float* scores) {
    if (kWide > 1 && rows <= 4 && tiles == 4) return ScoresOf<4, 4>(queries, rows, d, keys, tiles, scores);
    ScoresOf<kWide>(queries, rows, d, keys, tiles, scores);
  }

  static void Weigh(const Element* probabilities, int rows, int d, const std::byte* const* values, int key_count,
                    float* out) {
    for (int column = 0; column < d; column += 16 * kWide) {
      ForRowBlocks<kRowBlock>(rows, [&](auto count, int row) {
        constexpr int kRows = decltype(count)::value;
        V16 sums[kRows][kWide];
        for (auto& line : sums) {
          for (V16& sum : line) sum = Zero();
        }
        for (int key = 0; key < key_count; key += 32) {
          AddValues<kRows, kWide>(probabilities + row * kSplitKeys + key, values[key / 32], d, column, key_count - key,
                                  sums);
        }
        for (int r = 0; r < kRows; ++r) {
          for (int w = 0; w < kWide; ++w) Store(out + (row + r) * d + column + w * 16, sums[r][w]);
        }
      });
    }
  }

  // Up to four rows take four columns of 16 at once where registers allow: enough sums that do not wait for each other.
  static void WeighTile(const Element* probabilities, int rows, int d, const std::byte* values, int keys, bool first,
                        float* out) {
    if (kWide > 1 && rows <= 4 && d % 64 == 0) {
      WeighTileOf<4, 4>(probabilities, rows, d, values, keys, first, out);
    } else {
      WeighTileOf<kRowBlock, kWide>(probabilities, rows, d, values, keys, first, out);
    }
  }

 private:
  template <int kTilesAtOnce, int kRowsAtOnce = kRowBlock>
  static void ScoresOf(const Element* queries, int rows, int d, const std::byte* const* keys, int tiles,
                       float* scores) {
    for (int tile = 0; tile < tiles; tile += kTilesAtOnce) {
      ForRowBlocks<kRowsAtOnce>(rows, [&](auto count, int row) {
        constexpr int kRows = decltype(count)::value;
        V16 sums[kRows][kTilesAtOnce];
        for (auto& line : sums) {
          for (V16& sum : line) sum = Zero();
        }
        Accumulate<Product, kRows, kTilesAtOnce>(queries + row * d, d, d / Product::kDepth, keys + tile, kStepBytes,
                                                 sums);
        for (int r = 0; r < kRows; ++r) {
          for (int w = 0; w < kTilesAtOnce; ++w)
            Store(scores + (tile + w) * ScoreTile<VectorEngine>() + (row + r) * 16, sums[r][w]);
        }
      });
    }
  }

  template <int kRowsAtOnce, int kColumnsAtOnce>
  static void WeighTileOf(const Element* probabilities, int rows, int d, const std::byte* values, int keys, bool first,
                          float* out) {
    for (int column = 0; column < d; column += 16 * kColumnsAtOnce) {
      ForRowBlocks<kRowsAtOnce>(rows, [&](auto count, int row) {
        constexpr int kRows = decltype(count)::value;
        V16 sums[kRows][kColumnsAtOnce];
        for (int r = 0; r < kRows; ++r) {
          for (int w = 0; w < kColumnsAtOnce; ++w)
            sums[r][w] = first ? Zero() : Load(out + (row + r) * d + column + w * 16);
        }
        AddValues<kRows, kColumnsAtOnce>(probabilities + row * kSplitKeys, values, d, column, keys, sums);
        for (int r = 0; r < kRows; ++r) {
          for (int w = 0; w < kColumnsAtOnce; ++w) Store(out + (row + r) * d + column + w * 16, sums[r][w]);
        }
      });
    }
  }

  // Adds a tile of values, of which `left` keys are there (or more). A step is a pair of keys of 16 columns (exact: one
  // key, all its columns).
  template <int kRows, int kColumns>
  SKEIN_V16_INLINE void AddValues(const Element* probabilities, const std::byte* values, int d, int column, int left,
                                  V16 (&sums)[kRows][kColumns]) {
    const int right_step = kIsExact ? d * 4 : kStepBytes;
    const int block_bytes = kIsExact ? 64 : 1024;
    const int steps = ((left < 32 ? left : 32) + Product::kDepth - 1) / Product::kDepth;
    const std::byte* places[kColumns];
    for (int w = 0; w < kColumns; ++w) places[w] = values + (column / 16 + w) * block_bytes;
    Accumulate<Product, kRows, kColumns>(probabilities, kSplitKeys, steps, places, right_step, sums);
  }
};

}  // namespace
}  // namespace skein::kernels
