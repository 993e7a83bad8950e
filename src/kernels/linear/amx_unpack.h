// SPDX-License-Identifier: Apache-2.0
//
// From a quantised cell to two bf16 tiles in scratch: [half of the columns][16 pairs of k][16 columns], 1 KB a tile.
// Per 32 weights: a table look-up gives the integer as fp16, an fp16 product or FMA the value h, then
// rounding h to bf16 by integers (ref: Bf16TFromHalf): vpmulhrsw by 2^12 is (h + 4) >> 3, vpternlog masks and rebiases.
// Included only by files compiled for AVX512-FP16.
#pragma once

#include <immintrin.h>

#include "kernels/linear/panel.h"

namespace skein::kernels {

inline constexpr std::size_t kTileBytes = 1024;
inline constexpr std::size_t kCellTilesBytes = 2 * kTileBytes;  // a cell of 32 columns

struct UnpackConstants {
  __m512i table;         // fp16 of q' for nibbles, twice
  __m512i duplicate[2];  // indices that give columns 0-15 and 16-31 twice each
  __m512i eighth;        // 2^12 in each word
  __m512i keep;          // sign and mantissa
  __m512i bias;          // 0x3800: exponent bias 127 - 15
};

static inline UnpackConstants MakeUnpackConstants(WeightFormat format) {
  // fp16 of 0..15 and of -8..7.
  static const std::uint16_t kUnsigned[16] = {0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700,
                                              0x4800, 0x4880, 0x4900, 0x4980, 0x4a00, 0x4a80, 0x4b00, 0x4b80};
  static const std::uint16_t kSigned[16] = {0xc800, 0xc700, 0xc600, 0xc500, 0xc400, 0xc200, 0xc000, 0xbc00,
                                            0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700};
  alignas(64) std::uint16_t table[32];
  alignas(64) std::uint16_t duplicate[2][32];
  for (int i = 0; i < 32; ++i) {
    table[i] = format == WeightFormat::kW4Min ? kUnsigned[i % 16] : kSigned[i % 16];
    duplicate[0][i] = static_cast<std::uint16_t>(i / 2);
    duplicate[1][i] = static_cast<std::uint16_t>(16 + i / 2);
  }
  UnpackConstants c;
  c.table = _mm512_load_si512(table);
  c.duplicate[0] = _mm512_load_si512(duplicate[0]);
  c.duplicate[1] = _mm512_load_si512(duplicate[1]);
  c.eighth = _mm512_set1_epi16(0x1000);
  c.keep = _mm512_set1_epi16(static_cast<short>(0x87ff));
  c.bias = _mm512_set1_epi16(0x3800);
  return c;
}

static inline void StoreBf16T(UnpackConstants c, __m512h h, std::byte* into) {
  const __m512i rounded = _mm512_mulhrs_epi16(_mm512_castph_si512(h), c.eighth);
  _mm512_store_si512(into, _mm512_ternarylogic_epi64(rounded, c.keep, c.bias, 0xea));  // (rounded & keep) | bias
}

// How far ahead of use a panel's bytes are asked for: the reading pauses during products, and the prefetchers with it.
inline constexpr std::size_t kPrefetchBytes = 8192;

static inline void PrefetchRow(const std::byte* row) {
  _mm_prefetch(reinterpret_cast<const char*>(row + kPrefetchBytes), _MM_HINT_T1);
  _mm_prefetch(reinterpret_cast<const char*>(row + kPrefetchBytes + 64), _MM_HINT_T1);
}

// A pair of W4 or W4Min cells to four tiles, reading the unit once from front to back.
// The table look-up ignores all but the low bits of a word, so a quad's first pair is looked up by the words as they are
// and its second pair by the words that begin one byte later. (The last such load takes one byte of the scales.)
template <bool has_minimum>
static inline void UnpackW4Pair(UnpackConstants c, const std::byte* unit, std::byte* tiles) {
  const std::byte* halves = unit + 8 * kRowBytes;
  const __m512i even_scales = _mm512_load_si512(halves);
  const __m512i odd_scales = _mm512_load_si512(halves + kHalvesBytes);
  const __m512i even_minima = has_minimum ? _mm512_load_si512(halves + 2 * kHalvesBytes) : _mm512_setzero_si512();
  const __m512i odd_minima = has_minimum ? _mm512_load_si512(halves + 3 * kHalvesBytes) : _mm512_setzero_si512();
  __m512h even_scale[2], odd_scale[2], even_minimum[2], odd_minimum[2];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    even_scale[half] = _mm512_castsi512_ph(_mm512_permutexvar_epi16(c.duplicate[half], even_scales));
    odd_scale[half] = _mm512_castsi512_ph(_mm512_permutexvar_epi16(c.duplicate[half], odd_scales));
    even_minimum[half] = _mm512_castsi512_ph(_mm512_permutexvar_epi16(c.duplicate[half], even_minima));
    odd_minimum[half] = _mm512_castsi512_ph(_mm512_permutexvar_epi16(c.duplicate[half], odd_minima));
  }
  const auto value = [&c](__m512i index, __m512h scale, __m512h minimum) {
    const __m512h q = _mm512_castsi512_ph(_mm512_permutexvar_epi16(index, c.table));
    return has_minimum ? _mm512_fmadd_ph(q, scale, minimum) : _mm512_mul_ph(q, scale);
  };
#pragma GCC unroll 8
  for (std::size_t r = 0; r < 8; ++r) {
    PrefetchRow(unit + kRowBytes * r);
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half) {
      const std::byte* from = unit + kRowBytes * r + 64 * half;
      std::byte* even = tiles + kTileBytes * half + 128 * r;
      std::byte* odd = even + kCellTilesBytes;
      const __m512i first = _mm512_load_si512(from);
      const __m512i second = _mm512_loadu_si512(from + 1);
      StoreBf16T(c, value(first, even_scale[half], even_minimum[half]), even);
      StoreBf16T(c, value(second, even_scale[half], even_minimum[half]), even + 64);
      StoreBf16T(c, value(_mm512_srli_epi16(first, 4), odd_scale[half], odd_minimum[half]), odd);
      StoreBf16T(c, value(_mm512_srli_epi16(second, 4), odd_scale[half], odd_minimum[half]), odd + 64);
    }
  }
}

// One W8 cell to two tiles. 0x6400 | byte is 1024 + byte as fp16; minus 1152 it is byte - 128, exactly.
static inline void UnpackW8Cell(UnpackConstants c, const std::byte* unit, std::byte* tiles) {
  const __m512i scales = _mm512_load_si512(unit + 8 * kRowBytes);
  const __m512i low_bytes = _mm512_set1_epi16(0x00ff);
  const __m512i thousand = _mm512_set1_epi16(0x6400);
  const __m512h offset = _mm512_castsi512_ph(_mm512_set1_epi16(0x6480));  // 1152
  __m512h scale[2];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    scale[half] = _mm512_castsi512_ph(_mm512_permutexvar_epi16(c.duplicate[half], scales));
  }
  const auto value = [&](__m512i x, __m512h by) {
    const __m512i biased = _mm512_ternarylogic_epi64(x, low_bytes, thousand, 0xea);
    return _mm512_mul_ph(_mm512_sub_ph(_mm512_castsi512_ph(biased), offset), by);
  };
#pragma GCC unroll 8
  for (std::size_t r = 0; r < 8; ++r) {
    PrefetchRow(unit + kRowBytes * r);
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half) {
      const std::byte* from = unit + kRowBytes * r + 64 * half;
      std::byte* into = tiles + kTileBytes * half + 128 * r;
      StoreBf16T(c, value(_mm512_load_si512(from), scale[half]), into);
      StoreBf16T(c, value(_mm512_loadu_si512(from + 1), scale[half]), into + 64);
    }
  }
}

// Pair `pair` of a panel to four tiles.
template <WeightFormat format>
static inline void UnpackPair(UnpackConstants c, const std::byte* panel, int pair, std::byte* tiles) {
  const auto index = static_cast<std::size_t>(pair);
  if constexpr (format == WeightFormat::kW8) {
    UnpackW8Cell(c, panel + 2 * index * kW8UnitBytes, tiles);
    UnpackW8Cell(c, panel + (2 * index + 1) * kW8UnitBytes, tiles + kCellTilesBytes);
  } else if constexpr (format == WeightFormat::kW4Min) {
    UnpackW4Pair<true>(c, panel + kW4MinUnitBytes * index, tiles);
  } else {
    UnpackW4Pair<false>(c, panel + kW4UnitBytes * index, tiles);
  }
}

}  // namespace skein::kernels
