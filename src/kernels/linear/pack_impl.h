// SPDX-License-Identifier: Apache-2.0
//
// Packing by vectors: the same bytes as pack.cc at the speed of memory. Included by the units of AVX-512 and AVX2, which
// their flags make different; everything here has internal linkage.
//
// A file's row is one column of a panel, so packing transposes words of four bytes: a quad of bytes, a pair of bf16 or an
// fp32 number. One step takes 16 bytes of each of kLaneRows rows, four rows to a vector side by side, and four of those
// vectors transposed lane by lane are the same word of all rows in order.
//
// Values and scales are apart: while values are put in place, a few blocks of every row at a time, their scales are set
// aside and the largest |value| of each column is found; then scales are divided by the power of two that this gives. All of
// it is exact in fp32 but for minimum + 15 scale, and no two fp16 numbers give one that rounding takes across the limit of a
// power of two (a test looks at all of them).
#pragma once

#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "kernels/linear/pack_paths.h"
#include "kernels/linear/panel.h"

#define SKEIN_PACK_INLINE [[gnu::always_inline]] static inline

namespace skein::kernels {
namespace {

constexpr int kGroupColumns = 32;  // of a block of a file, and of a full cell

#if defined(__AVX512F__)
constexpr int kLaneRows = 16;
using Vector = __m512i;

SKEIN_PACK_INLINE __m128i Load16(const std::byte* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
// 16 bytes of rows 0, 4, 8 and 12.
SKEIN_PACK_INLINE Vector LoadLanes(const std::byte* const* rows, std::size_t at) {
  Vector v = _mm512_castsi128_si512(Load16(rows[0] + at));
  v = _mm512_inserti32x4(v, Load16(rows[4] + at), 1);
  v = _mm512_inserti32x4(v, Load16(rows[8] + at), 2);
  return _mm512_inserti32x4(v, Load16(rows[12] + at), 3);
}
// Whole cache lines: not read before they are written.
SKEIN_PACK_INLINE void Put(std::byte* into, Vector v) { _mm512_stream_si512(reinterpret_cast<__m512i*>(into), v); }
SKEIN_PACK_INLINE void FinishPuts() { _mm_sfence(); }
SKEIN_PACK_INLINE Vector Broadcast16(__m128i v) { return _mm512_broadcast_i32x4(v); }
SKEIN_PACK_INLINE Vector Bytes(int byte) { return _mm512_set1_epi8(static_cast<char>(byte)); }
SKEIN_PACK_INLINE Vector Nothing() { return _mm512_setzero_si512(); }
SKEIN_PACK_INLINE Vector Xor(Vector a, Vector b) { return _mm512_xor_si512(a, b); }
// Bits of a where the mask has ones, of b elsewhere.
SKEIN_PACK_INLINE Vector Choose(Vector mask, Vector a, Vector b) { return _mm512_ternarylogic_epi32(mask, a, b, 0xca); }
SKEIN_PACK_INLINE Vector Left4(Vector a) { return _mm512_slli_epi32(a, 4); }
SKEIN_PACK_INLINE Vector Right4(Vector a) { return _mm512_srli_epi32(a, 4); }
SKEIN_PACK_INLINE Vector Shuffle(Vector a, Vector order) { return _mm512_shuffle_epi8(a, order); }
SKEIN_PACK_INLINE Vector LowWords(Vector a, Vector b) { return _mm512_unpacklo_epi32(a, b); }
SKEIN_PACK_INLINE Vector HighWords(Vector a, Vector b) { return _mm512_unpackhi_epi32(a, b); }
SKEIN_PACK_INLINE Vector LowPairs(Vector a, Vector b) { return _mm512_unpacklo_epi64(a, b); }
SKEIN_PACK_INLINE Vector HighPairs(Vector a, Vector b) { return _mm512_unpackhi_epi64(a, b); }
SKEIN_PACK_INLINE __m512 FromHalves(const std::uint16_t* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
#else
constexpr int kLaneRows = 8;
using Vector = __m256i;

SKEIN_PACK_INLINE __m128i Load16(const std::byte* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
// 16 bytes of rows 0 and 4.
SKEIN_PACK_INLINE Vector LoadLanes(const std::byte* const* rows, std::size_t at) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(Load16(rows[0] + at)), Load16(rows[4] + at), 1);
}
SKEIN_PACK_INLINE void Put(std::byte* into, Vector v) { _mm256_store_si256(reinterpret_cast<__m256i*>(into), v); }
SKEIN_PACK_INLINE void FinishPuts() {}
SKEIN_PACK_INLINE Vector Broadcast16(__m128i v) { return _mm256_broadcastsi128_si256(v); }
SKEIN_PACK_INLINE Vector Bytes(int byte) { return _mm256_set1_epi8(static_cast<char>(byte)); }
SKEIN_PACK_INLINE Vector Nothing() { return _mm256_setzero_si256(); }
SKEIN_PACK_INLINE Vector Xor(Vector a, Vector b) { return _mm256_xor_si256(a, b); }
// Bits of a where the mask has ones, of b elsewhere.
SKEIN_PACK_INLINE Vector Choose(Vector mask, Vector a, Vector b) {
  return _mm256_or_si256(_mm256_and_si256(mask, a), _mm256_andnot_si256(mask, b));
}
SKEIN_PACK_INLINE Vector Left4(Vector a) { return _mm256_slli_epi32(a, 4); }
SKEIN_PACK_INLINE Vector Right4(Vector a) { return _mm256_srli_epi32(a, 4); }
SKEIN_PACK_INLINE Vector Shuffle(Vector a, Vector order) { return _mm256_shuffle_epi8(a, order); }
SKEIN_PACK_INLINE Vector LowWords(Vector a, Vector b) { return _mm256_unpacklo_epi32(a, b); }
SKEIN_PACK_INLINE Vector HighWords(Vector a, Vector b) { return _mm256_unpackhi_epi32(a, b); }
SKEIN_PACK_INLINE Vector LowPairs(Vector a, Vector b) { return _mm256_unpacklo_epi64(a, b); }
SKEIN_PACK_INLINE Vector HighPairs(Vector a, Vector b) { return _mm256_unpackhi_epi64(a, b); }
SKEIN_PACK_INLINE __m256 FromHalves(const std::uint16_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
#endif

// kLaneRows columns at a time, with the compiler's operators.
using Floats [[gnu::vector_size(kLaneRows * 4), gnu::may_alias]] = float;
using Words [[gnu::vector_size(kLaneRows * 4), gnu::may_alias]] = std::uint32_t;
using HalfWords [[gnu::vector_size(kLaneRows * 2), gnu::may_alias]] = std::uint16_t;
constexpr int kVectors = kPackColumns / kLaneRows;

// A number of each column.
struct Columns {
  Floats of[kVectors];
};

#if defined(__AVX512F__)
SKEIN_PACK_INLINE Columns ColumnsOf(__m512i halves) {
  return {{(Floats)_mm512_cvtph_ps(_mm512_castsi512_si256(halves)), (Floats)_mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1))}};
}
// 32 fp16 numbers; the lower (0) or the upper (1) ones of 32 pairs.
SKEIN_PACK_INLINE Columns TakeHalves(const std::uint16_t* from) { return ColumnsOf(_mm512_load_si512(from)); }
template <int part>
SKEIN_PACK_INLINE Columns TakeHalves(const std::uint32_t* from) {
  const __m512i step = _mm512_set1_epi32(0x00020000), two = _mm512_set1_epi32(0x00040004);
  const __m512i first = _mm512_add_epi32(step, _mm512_set1_epi32(0x00010001 * part));  // places 0 and 2, or 1 and 3
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i places = _mm512_add_epi32(first, _mm512_mullo_epi32(lane, two));
  return ColumnsOf(_mm512_permutex2var_epi16(_mm512_load_si512(from), places, _mm512_load_si512(from + 16)));
}
SKEIN_PACK_INLINE void PutColumns(std::byte* into, const Columns& x) {
  const __m256i low = _mm512_cvtps_ph((__m512)x.of[0], _MM_FROUND_TO_NEAREST_INT);
  const __m256i high = _mm512_cvtps_ph((__m512)x.of[1], _MM_FROUND_TO_NEAREST_INT);
  Put(into, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
}
#else
// 32 fp16 numbers; the lower (0) or the upper (1) ones of 32 pairs.
SKEIN_PACK_INLINE Columns TakeHalves(const std::uint16_t* from) {
  Columns x;
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) x.of[i] = (Floats)FromHalves(from + i * kLaneRows);
  return x;
}
template <int part>
SKEIN_PACK_INLINE Columns TakeHalves(const std::uint32_t* from) {
  Columns x;
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) {
    const __m256i pairs = _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i * kLaneRows));
    const __m256i halves = part == 1 ? _mm256_srli_epi32(pairs, 16) : _mm256_and_si256(pairs, _mm256_set1_epi32(0xffff));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(halves, halves), 0x08);
    x.of[i] = (Floats)_mm256_cvtph_ps(_mm256_castsi256_si128(packed));
  }
  return x;
}
SKEIN_PACK_INLINE void PutColumns(std::byte* into, const Columns& x) {
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) {
    _mm_store_si128(reinterpret_cast<__m128i*>(into) + i, _mm256_cvtps_ph((__m256)x.of[i], _MM_FROUND_TO_NEAREST_INT));
  }
}
#endif

// Four vectors as LoadLanes gives them of rows 0, 1, 2 and 3 and those behind: word w of all rows to into + w * kRowBytes.
SKEIN_PACK_INLINE void PutTransposed(const Vector (&rows)[4], std::byte* into) {
  const Vector low01 = LowWords(rows[0], rows[1]), low23 = LowWords(rows[2], rows[3]);
  const Vector high01 = HighWords(rows[0], rows[1]), high23 = HighWords(rows[2], rows[3]);
  Put(into, LowPairs(low01, low23));
  Put(into + kRowBytes, HighPairs(low01, low23));
  Put(into + 2 * kRowBytes, LowPairs(high01, high23));
  Put(into + 3 * kRowBytes, HighPairs(high01, high23));
}

// `words` words of 4 bytes of 32 rows, from `at` on. Requires: words is a multiple of 4.
SKEIN_PACK_INLINE void PutWords(const std::byte* const* rows, std::size_t at, int words, std::byte* into) {
  for (int word = 0; word < words; word += 4) {
#pragma GCC unroll 4
    for (int first = 0; first < kPackColumns; first += kLaneRows) {
      Vector lanes[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) lanes[i] = LoadLanes(rows + first + i, at + static_cast<std::size_t>(word) * 4);
      PutTransposed(lanes, into + static_cast<std::size_t>(word) * kRowBytes + first * 4);
    }
  }
}

// The order of bytes in quads (kQuadOrder).
SKEIN_PACK_INLINE Vector QuadOrder() {
  return Broadcast16(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
}

// The quads of a unit of W4: the nibbles of the blocks whose bytes begin at `even` and `odd` in each row (has_odd: or zeros).
template <bool has_odd>
SKEIN_PACK_INLINE void PutNibbles(const std::byte* const* rows, std::size_t even, std::size_t odd, std::byte* unit) {
  const Vector low_nibbles = Bytes(0x0f), order = QuadOrder();
#pragma GCC unroll 4
  for (int first = 0; first < kPackColumns; first += kLaneRows) {
    Vector low[4], high[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Vector a = LoadLanes(rows + first + i, even);
      Vector b = Nothing();
      if constexpr (has_odd) b = LoadLanes(rows + first + i, odd);
      low[i] = Shuffle(Choose(low_nibbles, a, Left4(b)), order);
      high[i] = Shuffle(Choose(low_nibbles, Right4(a), b), order);
    }
    PutTransposed(low, unit + first * 4);
    PutTransposed(high, unit + 4 * kRowBytes + first * 4);
  }
}

// The quads of a unit of W8: 32 signed bytes of each row become unsigned ones.
SKEIN_PACK_INLINE void PutBytes(const std::byte* const* rows, std::size_t at, std::byte* unit) {
  const Vector sign = Bytes(0x80), order = QuadOrder();
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 4
    for (int first = 0; first < kPackColumns; first += kLaneRows) {
      Vector lanes[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        lanes[i] = Shuffle(Xor(LoadLanes(rows + first + i, at + static_cast<std::size_t>(half) * 16), sign), order);
      }
      PutTransposed(lanes, unit + static_cast<std::size_t>(half) * 4 * kRowBytes + first * 4);
    }
  }
}

template <WeightFormat format>
constexpr std::size_t kHeaderBytes = format == WeightFormat::kW4Min ? 4 : 2;  // scale, and minimum
template <WeightFormat format>
constexpr std::size_t kBlockBytes = kHeaderBytes<format> + (format == WeightFormat::kW8 ? 32 : 16);

// Scales, or pairs of scale and minimum, of some consecutive blocks of all rows, columns side by side.
template <WeightFormat format>
struct Headers {
  static constexpr int kMost = 256;
  using Header = std::conditional_t<format == WeightFormat::kW4Min, std::uint32_t, std::uint16_t>;
  int begin = 0, end = 0;
  alignas(64) Header of[kMost][kPackColumns];
};

// Takes those of [headers.end, end) too, and forgets the others where there is no room. Requires: end - headers.end is at most
// kMost.
template <WeightFormat format>
SKEIN_PACK_INLINE void TakeHeaders(Headers<format>& headers, const std::byte* const* rows, int end) {
  if (end - headers.begin > headers.kMost) headers.begin = headers.end;
  auto* into = headers.of[headers.end - headers.begin];
  const int count = end - headers.end;
  const std::size_t at = kBlockBytes<format> * static_cast<std::size_t>(headers.end);
  headers.end = end;
  constexpr int kAtOnce = 4;  // rows: what they store together lies in one cache line
  for (int n = 0; n < kPackColumns; n += kAtOnce) {
    const std::byte* blocks[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i) blocks[i] = rows[n + i] + at;
    for (int g = 0; g < count; ++g) {
#pragma GCC unroll 4
      for (int i = 0; i < kAtOnce; ++i) {
        std::memcpy(into + g * kPackColumns + n + i, blocks[i], kHeaderBytes<format>);
        blocks[i] += kBlockBytes<format>;
      }
    }
  }
}

struct ColumnScales {
  alignas(64) float scale[kPackColumns];
  alignas(64) float inverse[kPackColumns];
  alignas(64) std::uint32_t broken[kPackColumns];  // not 0: the column is NaN
  bool any_broken;
};

// The part of a number in [1, 2) beyond which 4 * 2^e is too small for it: as fp32 bits of a fraction, rounded down.
constexpr std::uint32_t kFraction = 0x7fffff, kInfinity = 0x7f800000, kMagnitude = 0x7fffffff;
constexpr std::uint32_t LimitFraction() {
  const float limit = static_cast<float>(4 * kColumnMax);
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, limit);
  return (static_cast<double>(limit) > 4 * kColumnMax ? bits - 1 : bits) & kFraction;
}

SKEIN_PACK_INLINE Words Larger(Words a, Words b) { return a > b ? a : b; }

// The largest |value| of each column, as fp32 bits (in their order as integers NaN and infinity are above all numbers), with
// `count` more blocks.
template <WeightFormat format>
SKEIN_PACK_INLINE void FindLargest(const typename Headers<format>::Header (*headers)[kPackColumns], int count,
                                   Words (&largest)[kVectors]) {
  for (int g = 0; g < count; ++g) {
    if constexpr (format == WeightFormat::kW4Min) {
      const Columns scale = TakeHalves<0>(headers[g]), minimum = TakeHalves<1>(headers[g]);
      for (int i = 0; i < kVectors; ++i) {
        const Words low = (Words)minimum.of[i] & kMagnitude, high = (Words)(minimum.of[i] + 15.0f * scale.of[i]) & kMagnitude;
        largest[i] = Larger(Larger(low, high), largest[i]);
      }
    } else {
      const Columns scale = TakeHalves(headers[g]);
      constexpr float kMost = format == WeightFormat::kW4 ? 8.0f : 128.0f;
      for (int i = 0; i < kVectors; ++i) largest[i] = Larger((Words)(kMost * scale.of[i]) & kMagnitude, largest[i]);
    }
  }
}

SKEIN_PACK_INLINE void FindScales(const Words (&largest)[kVectors], ColumnScales& scales) {
  constexpr std::uint32_t kLimit = LimitFraction();
  Words any_broken = {};
  for (int i = 0; i < kVectors; ++i) {
    const Words bits = largest[i], fraction = bits & kFraction;
    const Words exponent = (bits >> 23) + (fraction > kLimit ? Words{} + 3 : Words{} + 2);
    const Words scale = bits == 0 ? Words{} : exponent << 23, inverse = bits == 0 ? Words{} : (254 - exponent) << 23;
    const Words broken = (Words)(bits >= kInfinity);
    std::memcpy(scales.scale + i * kLaneRows, &scale, sizeof scale);
    std::memcpy(scales.inverse + i * kLaneRows, &inverse, sizeof inverse);
    std::memcpy(scales.broken + i * kLaneRows, &broken, sizeof broken);
    any_broken |= broken;
  }
  std::uint32_t broken = 0;
  for (int lane = 0; lane < kLaneRows; ++lane) broken |= any_broken[lane];
  scales.any_broken = broken != 0;
}

// The scales or minima of a block of all rows, divided. (A product with a power of two is exact in fp32, so that the only
// rounding is the one to fp16.)
SKEIN_PACK_INLINE void PutHalves(Columns halves, const ColumnScales& scales, std::byte* into) {
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) {
    Floats inverse;
    std::memcpy(&inverse, scales.inverse + i * kLaneRows, sizeof inverse);
    halves.of[i] *= inverse;
  }
  PutColumns(into, halves);
}

// The scales, and minima, of the cell in `place` of a unit.
template <WeightFormat format>
SKEIN_PACK_INLINE void PutHeaders(const typename Headers<format>::Header* of_group, const ColumnScales& scales, int place, std::byte* unit) {
  std::byte* halves = unit + 8 * kRowBytes + kHalvesBytes * static_cast<std::size_t>(place);
  if constexpr (format == WeightFormat::kW4Min) {
    PutHalves(TakeHalves<0>(of_group), scales, halves);
    PutHalves(TakeHalves<1>(of_group), scales, halves + 2 * kHalvesBytes);
  } else {
    PutHalves(TakeHalves(of_group), scales, halves);
  }
}

// A unit: the cell `cell`, of W4 two from there on.
template <WeightFormat format>
struct Unit {
  int cell;
  bool fits;      // its cells are full, or absent in the odd place
  bool has_odd;
  int even, odd;  // blocks of the row
  std::byte* place;

  int last() const { return has_odd ? odd : even; }
};

template <WeightFormat format>
SKEIN_PACK_INLINE Unit<format> UnitAt(const PanelSource& source, int cell, std::byte* into) {
  constexpr int kPerUnit = CellsPerUnit(format);
  const Cell& even = source.cells[cell];
  const Cell& odd = source.cells[cell + kPerUnit - 1];
  Unit<format> unit;
  unit.cell = cell;
  unit.has_odd = kPerUnit > 1 && odd.count > 0;
  unit.fits = even.count == kGroupColumns && (odd.count == kGroupColumns || odd.count == 0);
  unit.even = (source.first_column + even.begin) / kGroupColumns;
  unit.odd = (source.first_column + odd.begin) / kGroupColumns;
  unit.place = into + UnitBytes(format) * static_cast<std::size_t>(cell / kPerUnit);
  return unit;
}

template <WeightFormat format>
SKEIN_PACK_INLINE void PutValues(const PanelSource& source, const Unit<format>& unit) {
  const auto values_of = [](int group) { return kBlockBytes<format> * static_cast<std::size_t>(group) + kHeaderBytes<format>; };
  if constexpr (format == WeightFormat::kW8) {
    PutBytes(source.rows, values_of(unit.even), unit.place);
  } else if (unit.has_odd) {
    PutNibbles<true>(source.rows, values_of(unit.even), values_of(unit.odd), unit.place);
  } else {
    PutNibbles<false>(source.rows, values_of(unit.even), 0, unit.place);  // its scales are zeros already
  }
}

// Puts all values that fit, sets scales aside and finds what they are to be divided by. (Small steps, so that memory is read
// and written at the same time.)
template <WeightFormat format>
SKEIN_PACK_INLINE void PackValues(const PanelSource& source, Headers<format>& headers, ColumnScales& scales, std::byte* into) {
  constexpr int kStep = 8;
  const int groups = (source.row_columns + kGroupColumns - 1) / kGroupColumns;
  Words largest[kVectors] = {};
  int cell = 0;
  for (int group = 0; group < groups; group += kStep) {
    const int end = groups - group < kStep ? groups : group + kStep;
    TakeHeaders<format>(headers, source.rows, end);
    FindLargest<format>(headers.of + (group - headers.begin), end - group, largest);
    for (; cell < source.cell_count; cell += CellsPerUnit(format)) {
      const Unit<format> unit = UnitAt<format>(source, cell, into);
      if (unit.last() >= end) break;
      if (unit.fits) PutValues<format>(source, unit);
    }
  }
  FindScales(largest, scales);
}

// Puts the divided scales, and the units that do not fit.
template <WeightFormat format>
SKEIN_PACK_INLINE void PackScales(const PanelSource& source, Headers<format>& headers, const ColumnScales& scales, std::byte* into) {
  const int groups = (source.row_columns + kGroupColumns - 1) / kGroupColumns;
  const auto put = [&](int group, int place, std::byte* unit) {
    if (group >= headers.end || group < headers.begin) {
      headers.begin = headers.end = group;
      TakeHeaders<format>(headers, source.rows, groups - group < headers.kMost ? groups : group + headers.kMost);
    }
    PutHeaders<format>(headers.of[group - headers.begin], scales, place, unit);
  };
  for (int cell = 0; cell < source.cell_count; cell += CellsPerUnit(format)) {
    const Unit<format> unit = UnitAt<format>(source, cell, into);
    if (unit.fits) {
      put(unit.even, 0, unit.place);
      if (unit.has_odd) put(unit.odd, 1, unit.place);
    } else {
      for (int n = 0; n < kPackColumns; ++n) PackUnitOfColumnRef(source, cell, n, static_cast<double>(scales.inverse[n]), into);
    }
  }
  std::memcpy(into + CellsBytes(format, source.cell_count), scales.scale, sizeof scales.scale);
}

template <WeightFormat format>
void PackQuantised(const PanelSource& source, std::byte* into) {
  Headers<format> headers;
  ColumnScales scales;
  PackValues<format>(source, headers, scales, into);
  PackScales<format>(source, headers, scales, into);
  if (!scales.any_broken) return;
  for (int n = 0; n < kPackColumns; ++n) {
    if (scales.broken[n] != 0) PackColumnRef(source, n, into);
  }
}

void PackBf16(const PanelSource& source, std::byte* into) {
  for (int c = 0; c < source.cell_count; ++c) {
    const Cell& cell = source.cells[c];
    if (cell.count == kGroupColumns) {
      PutWords(source.rows, static_cast<std::size_t>(source.first_column + cell.begin) * 2, 16,
               into + kBf16UnitBytes * static_cast<std::size_t>(c));
    } else {
      for (int n = 0; n < kPackColumns; ++n) PackUnitOfColumnRef(source, c, n, 0, into);
    }
  }
}

// 32 numbers of 16 bits as fp32. (The instruction for fp16 would make signalling NaNs quiet.)
SKEIN_PACK_INLINE void Widen(DType dtype, const std::byte* from, float* into) {
  for (int i = 0; i < kGroupColumns; i += kLaneRows) {
    HalfWords halves;
    std::memcpy(&halves, from + 2 * i, sizeof halves);
    Words words = __builtin_convertvector(halves, Words);
    if (dtype == DType::kBF16) {
      words = words << 16;
    } else {
      const Words nan = ((words & 0x8000) << 16) | 0x7f800000 | ((words & 0x3ff) << 13);
      words = (words & 0x7c00) == 0x7c00 ? nan : (Words)FromHalves(reinterpret_cast<const std::uint16_t*>(from) + i);
    }
    std::memcpy(into + i, &words, sizeof words);
  }
}

void PackF32(const PanelSource& source, std::byte* into) {
  const std::size_t element = source.dtype == DType::kF32 ? 4 : 2;
  alignas(64) float widened[kPackColumns][kGroupColumns];
  const std::byte* widened_rows[kPackColumns];
  for (int n = 0; n < kPackColumns; ++n) widened_rows[n] = reinterpret_cast<const std::byte*>(widened[n]);
  for (int c = 0; c < source.cell_count; ++c) {
    const Cell& cell = source.cells[c];
    std::byte* unit = into + kF32UnitBytes * static_cast<std::size_t>(c);
    const std::size_t at = static_cast<std::size_t>(source.first_column + cell.begin) * element;
    if (cell.count != kGroupColumns) {
      for (int n = 0; n < kPackColumns; ++n) PackUnitOfColumnRef(source, c, n, 0, into);
    } else if (source.dtype == DType::kF32) {
      PutWords(source.rows, at, kGroupColumns, unit);
    } else {
      for (int n = 0; n < kPackColumns; ++n) Widen(source.dtype, source.rows[n] + at, widened[n]);
      PutWords(widened_rows, 0, kGroupColumns, unit);
    }
  }
}

// Panels with absent rows are the last ones of a matrix at most, and quantised weights widened are for comparisons: plain.
bool IsRare(const PanelSource& source) {
  bool absent = false;
  for (const std::byte* row : source.rows) absent |= row == nullptr;
  const bool quantised = source.dtype == DType::kQ4_0 || source.dtype == DType::kQ4_1 || source.dtype == DType::kQ8_0;
  return absent || (source.format == WeightFormat::kF32 && quantised);
}

void PackByVectors(const PanelSource& source, std::byte* into) {
  if (IsRare(source)) return PackRef(source, into);
  switch (source.format) {
    case WeightFormat::kW4:
      PackQuantised<WeightFormat::kW4>(source, into);
      break;
    case WeightFormat::kW4Min:
      PackQuantised<WeightFormat::kW4Min>(source, into);
      break;
    case WeightFormat::kW8:
      PackQuantised<WeightFormat::kW8>(source, into);
      break;
    case WeightFormat::kBf16:
      PackBf16(source, into);
      break;
    case WeightFormat::kF32:
      PackF32(source, into);
      break;
  }
  FinishPuts();
}

}  // namespace
}  // namespace skein::kernels
