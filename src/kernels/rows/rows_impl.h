// SPDX-License-Identifier: Apache-2.0
//
// The row kernels over V16. Included by rows_avx2.cc and rows_avx512.cc, which their flags make different; everything
// here has internal linkage. rows_ref.cc says in plain loops what each one means.
#pragma once

#include <cmath>

#include "kernels/rows/rows.h"
#include "kernels/simd/scalar_math.h"
#include "kernels/simd/v16.h"

namespace skein::kernels {
namespace {

using namespace simd;  // NOLINT: an implementation shared by two units, included nowhere else

void RmsNorm(const float* x, const float* weight, float epsilon, int n, float* out) {
  const int full = n & ~15;
  V16 squares = Zero();
  for (int i = 0; i < full; i += 16) {
    const V16 v = Load(x + i);
    squares = Fma(v, v, squares);
  }
  if (full < n) {
    const V16 v = LoadPartial(x + full, n - full);
    squares = Fma(v, v, squares);
  }
  const float mean = ReduceAdd(squares) / static_cast<float>(n);
  const V16 factor = Set(1.0f / std::sqrt(mean + epsilon));
  for (int i = 0; i < full; i += 16) Store(out + i, Mul(Mul(Load(x + i), factor), Load(weight + i)));
  if (full < n) {
    const V16 y = Mul(Mul(LoadPartial(x + full, n - full), factor), LoadPartial(weight + full, n - full));
    StorePartial(out + full, y, n - full);
  }
}

// Columns [0, count) of a cell as two vectors, zero beyond.
struct CellValues {
  V16 low, high;
};
[[gnu::always_inline]] inline CellValues LoadCell(const float* x, int count) {
  if (count == 32) return {Load(x), Load(x + 16)};
  if (count >= 16) return {Load(x), LoadPartial(x + 16, count - 16)};
  return {LoadPartial(x, count), Zero()};
}

[[gnu::always_inline]] inline void PrepareInt8Cell(CellValues v, int cell, std::int8_t* q, float* scale,
                                                   std::int32_t* sum, float* scaled_sum) {
  const float largest = ReduceMax(Max(Abs(v.low), Abs(v.high)));
  const bool zero = largest < math::kSmallestMagnitude;
  const float cell_scale = zero ? 0.0f : largest / 127.0f;
  const V16 inverse = Set(zero ? 0.0f : 127.0f / largest);
  // Quads are stored in the order k0 k2 k1 k3.
  const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
  const __m128i low = ToInt8(Mul(v.low, inverse));
  const __m128i high = ToInt8(Mul(v.high, inverse));
  __m128i* into = reinterpret_cast<__m128i*>(q + cell * 32);
  _mm_storeu_si128(into, _mm_shuffle_epi8(low, order));
  _mm_storeu_si128(into + 1, _mm_shuffle_epi8(high, order));
  // Sums of bytes + 128, eight at a time.
  const __m128i flip = _mm_set1_epi8(-128);
  const __m128i sums = _mm_add_epi64(_mm_sad_epu8(_mm_xor_si128(low, flip), _mm_setzero_si128()),
                                     _mm_sad_epu8(_mm_xor_si128(high, flip), _mm_setzero_si128()));
  const int total = _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 128 * 32;
  scale[cell] = cell_scale;
  sum[cell] = total;
  scaled_sum[cell] = cell_scale * static_cast<float>(total);
}

template <typename TakeCell>
[[gnu::always_inline]] inline void ForEachCell(const float* x, const Cells& cells, int begin, int end, TakeCell take) {
  if (cells.contiguous) {
    for (int cell = begin; cell < end; ++cell) {
      const int count = cells.cells[static_cast<std::size_t>(cell)].count;
      if (count > 0) take(cell, LoadCell(x + (cell - begin) * 32, count));
    }
    return;
  }
  const int first = cells.cells[static_cast<std::size_t>(begin)].begin;
  for (int cell = begin; cell < end; ++cell) {
    const Cell& place = cells.cells[static_cast<std::size_t>(cell)];
    if (place.count > 0) take(cell, LoadCell(x + (place.begin - first), place.count));
  }
}

void PrepareCells(const float* x, int row, int cell_begin, int cell_end, Activations& input) {
  if (cell_begin >= cell_end) return;
  switch (input.arithmetic()) {
    case Arithmetic::kInt8G32: {
      std::int8_t* q = input.q(row);
      float* scale = input.scale(row);
      std::int32_t* sum = input.sum(row);
      float* scaled_sum = input.scaled_sum(row);
      ForEachCell(x, input.cells(), cell_begin, cell_end,
                  [=](int cell, CellValues v) { PrepareInt8Cell(v, cell, q, scale, sum, scaled_sum); });
      return;
    }
    case Arithmetic::kBf16T:
    case Arithmetic::kBf16P: {
      std::uint16_t* values = input.bf16(row);
      ForEachCell(x, input.cells(), cell_begin, cell_end, [=](int cell, CellValues v) {
        StoreBf16(values + cell * 32, v.low);
        StoreBf16(values + cell * 32 + 16, v.high);
      });
      return;
    }
    case Arithmetic::kExact: {
      float* values = input.f32(row);
      ForEachCell(x, input.cells(), cell_begin, cell_end, [=](int cell, CellValues v) {
        Store(values + cell * 32, v.low);
        Store(values + cell * 32 + 16, v.high);
      });
      return;
    }
  }
}

void Prepare(const float* x, int row, Activations& input) { PrepareCells(x, row, 0, input.cells().count(), input); }

[[gnu::always_inline]] inline V16 SwiGlu16(V16 gate, V16 up) {
  return Mul(Div(gate, Add(Set(1.0f), Exp(Sub(Zero(), gate)))), up);
}

void SwiGlu(const float* gate, const float* up, int n, float* out) {
  const int full = n & ~15;
  for (int i = 0; i < full; i += 16) Store(out + i, SwiGlu16(Load(gate + i), Load(up + i)));
  if (full < n) {
    const int rest = n - full;
    StorePartial(out + full, SwiGlu16(LoadPartial(gate + full, rest), LoadPartial(up + full, rest)), rest);
  }
}

void Rope(float* head, int dimensions, const float* cosine, const float* sine) {
  const int half = dimensions / 2;
  const int full = half & ~15;
  for (int i = 0; i < full; i += 16) {
    const V16 x = Load(head + i), y = Load(head + half + i), c = Load(cosine + i), s = Load(sine + i);
    Store(head + i, Fma(x, c, Sub(Zero(), Mul(y, s))));
    Store(head + half + i, Fma(x, s, Mul(y, c)));
  }
  if (full < half) {
    const int rest = half - full;
    const V16 x = LoadPartial(head + full, rest), y = LoadPartial(head + half + full, rest);
    const V16 c = LoadPartial(cosine + full, rest), s = LoadPartial(sine + full, rest);
    StorePartial(head + full, Fma(x, c, Sub(Zero(), Mul(y, s))), rest);
    StorePartial(head + half + full, Fma(x, s, Mul(y, c)), rest);
  }
}

void AddRow(const float* x, int n, float* y) {
  const int full = n & ~15;
  for (int i = 0; i < full; i += 16) Store(y + i, Add(Load(y + i), Load(x + i)));
  if (full < n) {
    const int rest = n - full;
    StorePartial(y + full, Add(LoadPartial(y + full, rest), LoadPartial(x + full, rest)), rest);
  }
}

float MaxOf(const float* x, int n) {
  const V16 lowest = Set(-HUGE_VALF);
  V16 a = lowest, b = lowest, c = lowest, d = lowest;
  int i = 0;
  for (; i + 64 <= n; i += 64) {
    a = Max(Load(x + i), a);
    b = Max(Load(x + i + 16), b);
    c = Max(Load(x + i + 32), c);
    d = Max(Load(x + i + 48), d);
  }
  float largest = ReduceMax(Max(Max(a, b), Max(c, d)));
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest + 0.0f;  // -0 becomes +0, so that no order of comparisons shows
}

int ArgMax(const float* x, int n) {
  const float largest = MaxOf(x, n);
  const V16 wanted = Set(largest);
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    const unsigned lanes = EqualLanes(Load(x + i), wanted);
    if (lanes != 0) return i + __builtin_ctz(lanes);
  }
  for (; i < n; ++i) {
    if (x[i] == largest) return i;
  }
  return 0;
}

float SumExp(const float* x, float shift, int n) {
  const int full = n & ~15;
  const V16 away = Set(shift);
  V16 sum = Zero();
  for (int i = 0; i < full; i += 16) sum = Add(sum, Exp(Sub(Load(x + i), away)));
  if (full < n) {
    const int rest = n - full;
    sum = Add(sum, KeepFirst(Exp(Sub(LoadPartial(x + full, rest), away)), rest));
  }
  return ReduceAdd(sum);
}

float ExpOne(float x) { return math::ScalarExp(x); }
float LogOne(float x) { return math::ScalarLog(x); }

constexpr RowKernels kRowKernels = {.rms_norm = RmsNorm,
                                    .prepare = Prepare,
                                    .prepare_cells = PrepareCells,
                                    .swiglu = SwiGlu,
                                    .rope = Rope,
                                    .add = AddRow,
                                    .argmax = ArgMax,
                                    .max = MaxOf,
                                    .sum_exp = SumExp,
                                    .exp = ExpOne,
                                    .log = LogOne};

}  // namespace
}  // namespace skein::kernels
