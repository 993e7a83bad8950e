// SPDX-License-Identifier: Apache-2.0
//
// From a quantised cell to two bf16 tiles in scratch: [half of the columns][16 pairs of k][16 columns], 1 KB a tile.
// Per 32 weights: a mask leaves the integer q where an fp16 denormal has its lowest bits, so that it is q times a power of two
// without a conversion (fp16 FMAs take denormals at full speed, whatever MXCSR says); an FMA with the scale times the
// inverse power gives the value h; then rounding h to bf16 by integers (ref: Bf16TFromHalf): vpmulhrsw by 2^12 is
// (h + 4) >> 3, vpternlog masks and rebiases. The packing keeps scales small enough for their product with that power.
// Included only by files compiled for AVX512-FP16.
#pragma once

#include <immintrin.h>

#include "kernels/linear/panel.h"

namespace skein::kernels {

inline constexpr std::size_t kTileBytes = 1024;
inline constexpr std::size_t kCellTilesBytes = 2 * kTileBytes;  // a cell of 32 columns

struct UnpackConstants {
  __m512i duplicate[2];  // indices that give columns 0-15 and 16-31 twice each
  __m512i integer;       // the bits of q in a word
  __m512h power;         // its square is 2^20 or 2^24: what brings q back
  __m512h middle;        // -8 or -128: q's value where the stored one is 0
  __m512i eighth;        // 2^12 in each word
  __m512i keep;          // sign and mantissa
  __m512i bias;          // 0x3800: exponent bias 127 - 15
};

static inline __m512h AllHalves(short bits) { return _mm512_castsi512_ph(_mm512_set1_epi16(bits)); }

static inline UnpackConstants MakeUnpackConstants(WeightFormat format) {
  const bool bytes = format == WeightFormat::kW8;
  alignas(64) std::uint16_t duplicate[2][32];
  for (int i = 0; i < 32; ++i) {
    duplicate[0][i] = static_cast<std::uint16_t>(i / 2);
    duplicate[1][i] = static_cast<std::uint16_t>(16 + i / 2);
  }
  UnpackConstants c;
  c.duplicate[0] = _mm512_load_si512(duplicate[0]);
  c.duplicate[1] = _mm512_load_si512(duplicate[1]);
  c.integer = _mm512_set1_epi16(bytes ? 0x00ff : 0x00f0);
  c.power = AllHalves(bytes ? 0x6c00 : 0x6400);                               // 2^12, 2^10
  c.middle = AllHalves(static_cast<short>(bytes ? 0xd800 : 0xc800));          // -128, -8
  c.eighth = _mm512_set1_epi16(0x1000);
  c.keep = _mm512_set1_epi16(static_cast<short>(0x87ff));
  c.bias = _mm512_set1_epi16(0x3800);
  return c;
}

// 32 values to bf16. `word` has q at c.integer, `scale` is multiplied already.
static inline void StoreWeights(UnpackConstants c, __m512i word, __m512h scale, __m512h minimum, std::byte* into) {
  const __m512h h = _mm512_fmadd_ph(_mm512_castsi512_ph(_mm512_and_si512(word, c.integer)), scale, minimum);
  const __m512i rounded = _mm512_mulhrs_epi16(_mm512_castph_si512(h), c.eighth);
  _mm512_store_si512(into, _mm512_ternarylogic_epi64(rounded, c.keep, c.bias, 0xea));  // (rounded & keep) | bias
}

// Scales and minima of the 32 columns of a cell, for its two tiles.
struct CellScales {
  __m512h scale[2], minimum[2];
};

// `minima`: nullptr where the stored 0 stands for c.middle.
static inline CellScales LoadCellScales(UnpackConstants c, const std::byte* scales, const std::byte* minima) {
  const __m512h plain = _mm512_castsi512_ph(_mm512_load_si512(scales));
  const __m512i scale = _mm512_castph_si512(_mm512_mul_ph(_mm512_mul_ph(plain, c.power), c.power));
  const __m512i minimum = minima != nullptr ? _mm512_load_si512(minima) : _mm512_castph_si512(_mm512_mul_ph(plain, c.middle));
  CellScales cell;
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    cell.scale[half] = _mm512_castsi512_ph(_mm512_permutexvar_epi16(c.duplicate[half], scale));
    cell.minimum[half] = _mm512_castsi512_ph(_mm512_permutexvar_epi16(c.duplicate[half], minimum));
  }
  return cell;
}

// How far ahead of use a panel's bytes are asked for: the reading pauses during products, and the prefetchers with it.
inline constexpr std::size_t kPrefetchBytes = 8192;

static inline void PrefetchRow(const std::byte* row) {
  _mm_prefetch(reinterpret_cast<const char*>(row + kPrefetchBytes), _MM_HINT_T1);
  _mm_prefetch(reinterpret_cast<const char*>(row + kPrefetchBytes + 64), _MM_HINT_T1);
}

// A pair of W4 or W4Min cells to four tiles, reading the unit once from front to back.
// Of a word only bits 4-7 count, so a quad's first pair is taken from the words as they are and its second pair from the
// words that begin one byte later. (The last such load takes one byte of the scales.)
template <bool has_minimum>
static inline void UnpackW4Pair(UnpackConstants c, const std::byte* unit, std::byte* tiles) {
  const std::byte* halves = unit + 8 * kRowBytes;
  const CellScales even = LoadCellScales(c, halves, has_minimum ? halves + 2 * kHalvesBytes : nullptr);
  const CellScales odd = LoadCellScales(c, halves + kHalvesBytes, has_minimum ? halves + 3 * kHalvesBytes : nullptr);
#pragma GCC unroll 8
  for (std::size_t r = 0; r < 8; ++r) {
    PrefetchRow(unit + kRowBytes * r);
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half) {
      const std::byte* from = unit + kRowBytes * r + 64 * half;
      std::byte* into = tiles + kTileBytes * half + 128 * r;
      const __m512i first = _mm512_load_si512(from);
      const __m512i second = _mm512_loadu_si512(from + 1);
      StoreWeights(c, _mm512_slli_epi16(first, 4), even.scale[half], even.minimum[half], into);
      StoreWeights(c, _mm512_slli_epi16(second, 4), even.scale[half], even.minimum[half], into + 64);
      StoreWeights(c, first, odd.scale[half], odd.minimum[half], into + kCellTilesBytes);
      StoreWeights(c, second, odd.scale[half], odd.minimum[half], into + kCellTilesBytes + 64);
    }
  }
}

// One W8 cell to two tiles.
static inline void UnpackW8Cell(UnpackConstants c, const std::byte* unit, std::byte* tiles) {
  const CellScales cell = LoadCellScales(c, unit + 8 * kRowBytes, nullptr);
#pragma GCC unroll 8
  for (std::size_t r = 0; r < 8; ++r) {
    PrefetchRow(unit + kRowBytes * r);
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half) {
      const std::byte* from = unit + kRowBytes * r + 64 * half;
      std::byte* into = tiles + kTileBytes * half + 128 * r;
      StoreWeights(c, _mm512_load_si512(from), cell.scale[half], cell.minimum[half], into);
      StoreWeights(c, _mm512_loadu_si512(from + 1), cell.scale[half], cell.minimum[half], into + 64);
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
