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

// Writes 32 numbers as bytes in the order of quads, k0 k2 k1 k3, and returns their sum and the sum of their magnitudes.
struct ByteSums {
  int sum, magnitudes;
};
[[gnu::always_inline]] inline ByteSums StoreBytes(V16 low_half, V16 high_half, std::int8_t* q) {
  const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
  const __m128i low = ToInt8(low_half);
  const __m128i high = ToInt8(high_half);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm_shuffle_epi8(low, order));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q) + 1, _mm_shuffle_epi8(high, order));
  // Sums of unsigned bytes, eight at a time; of bytes + 128 for the signed sum.
  const __m128i flip = _mm_set1_epi8(-128), zero = _mm_setzero_si128();
  const __m128i sums = _mm_add_epi64(_mm_sad_epu8(_mm_xor_si128(low, flip), zero), _mm_sad_epu8(_mm_xor_si128(high, flip), zero));
  const __m128i sizes = _mm_add_epi64(_mm_sad_epu8(_mm_abs_epi8(low), zero), _mm_sad_epu8(_mm_abs_epi8(high), zero));
  return {_mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 128 * 32, _mm_cvtsi128_si32(sizes) + _mm_extract_epi16(sizes, 4)};
}

// Where a row of int8g32 is written.
struct Int8Row {
  std::int8_t *q, *residual;
  std::uint8_t* uneven;
  float *scale, *scaled_sum;
  std::int32_t *sum, *residual_sum;
  int uneven_sum;
  [[gnu::always_inline]] Int8Row(Activations& input, int row)
      : q(input.q(row)), residual(input.residual(row)), uneven(input.uneven(row)), scale(input.scale(row)),
        scaled_sum(input.scaled_sum(row)), sum(input.sum(row)), residual_sum(input.residual_sum(row)), uneven_sum(input.uneven_sum()) {}
};

// Writes a cell whose scale, and the inverse of that, are known.
[[gnu::always_inline]] inline void WriteInt8Cell(CellValues v, float scale, float inverse, int cell, const Int8Row& into) {
  const V16 low = Mul(v.low, Set(inverse)), high = Mul(v.high, Set(inverse));
  const ByteSums sums = StoreBytes(low, high, into.q + cell * 32);
  float total = static_cast<float>(sums.sum);
  const bool uneven = sums.magnitudes <= into.uneven_sum && scale > 0.0f;
  if (uneven) [[unlikely]] {
    const V16 steps = Set(256.0f);
    const int left = StoreBytes(Mul(BeyondNearest(low), steps), Mul(BeyondNearest(high), steps), into.residual + cell * 32).sum;
    into.residual_sum[cell] = left;
    total = total + static_cast<float>(left) * kResidualStep;
  }
  into.uneven[cell] = uneven ? 1 : 0;
  into.scale[cell] = scale;
  into.sum[cell] = sums.sum;
  into.scaled_sum[cell] = scale * total;
}

[[gnu::always_inline]] inline void PrepareInt8Cell(CellValues v, int cell, const Int8Row& into) {
  const float largest = ReduceMax(Max(Abs(v.low), Abs(v.high)));
  const bool zero = largest < math::kSmallestMagnitude;
  WriteInt8Cell(v, zero ? 0.0f : largest / 127.0f, zero ? 0.0f : 127.0f / largest, cell, into);
}

// Whole cells, 16 at a time: all scales before all bytes, so that no cell waits for its own maximum and division.
class Int8Batch {
 public:
  [[gnu::always_inline]] explicit Int8Batch(Activations& input) : input_(input) {}

  [[gnu::always_inline]] void Add(const float* x, int row, int cell) {
    x_[count_] = x;
    row_[count_] = row;
    cell_[count_] = cell;
    if (++count_ == kCells) Write();
  }
  void Write() {
    if (count_ == 0) return;
    alignas(16) float scale[kCells], inverse[kCells];
    for (int i = count_; i % 4 != 0; ++i) x_[i] = x_[0];
    for (int i = 0; i < count_; i += 4) {
      const __m128 largest = _mm_setr_ps(Largest(x_[i]), Largest(x_[i + 1]), Largest(x_[i + 2]), Largest(x_[i + 3]));
      const __m128 kept = _mm_cmpnlt_ps(largest, _mm_set1_ps(math::kSmallestMagnitude));
      _mm_store_ps(scale + i, _mm_and_ps(kept, _mm_div_ps(largest, _mm_set1_ps(127.0f))));
      _mm_store_ps(inverse + i, _mm_and_ps(kept, _mm_div_ps(_mm_set1_ps(127.0f), largest)));
    }
    for (int i = 0; i < count_; ++i) {
      WriteInt8Cell({Load(x_[i]), Load(x_[i] + 16)}, scale[i], inverse[i], cell_[i], Int8Row(input_, row_[i]));
    }
    count_ = 0;
  }

 private:
  static constexpr int kCells = 16;
  [[gnu::always_inline]] static float Largest(const float* x) { return ReduceMax(Max(Abs(Load(x)), Abs(Load(x + 16)))); }
  Activations& input_;
  const float* x_[kCells];
  int row_[kCells], cell_[kCells];
  int count_ = 0;
};

// Calls take(cell, x) for the cells [begin, end) of a row that begins with them, x at their first columns.
template <typename Take>
[[gnu::always_inline]] inline void ForEachCell(const float* x, const Cells& cells, int begin, int end, Take take) {
  const int first = cells.cells[static_cast<std::size_t>(begin)].begin;
  for (int cell = begin; cell < end; ++cell) {
    const Cell& place = cells.cells[static_cast<std::size_t>(cell)];
    if (place.count > 0) take(cell, x + (place.begin - first), place.count);
  }
}

void PrepareInt8(const float* x, std::ptrdiff_t stride, int row_begin, int row_end, int cell_begin, int cell_end, Activations& input) {
  Int8Batch batch(input);
  for (int row = row_begin; row < row_end; ++row, x += stride) {
    ForEachCell(x, input.cells(), cell_begin, cell_end, [&](int cell, const float* from, int count) {
      if (count == 32) return batch.Add(from, row, cell);
      PrepareInt8Cell(LoadCell(from, count), cell, Int8Row(input, row));
    });
  }
  batch.Write();
}

void PrepareCells(const float* x, std::ptrdiff_t stride, int row_begin, int row_end, int cell_begin, int cell_end, Activations& input) {
  if (cell_begin >= cell_end) return;
  if (input.arithmetic() == Arithmetic::kInt8G32) return PrepareInt8(x, stride, row_begin, row_end, cell_begin, cell_end, input);
  const bool exact = input.arithmetic() == Arithmetic::kExact;
  for (int row = row_begin; row < row_end; ++row, x += stride) {
    std::uint16_t* halves = input.bf16(row);
    float* values = input.f32(row);
    ForEachCell(x, input.cells(), cell_begin, cell_end, [=](int cell, const float* from, int count) {
      const CellValues v = LoadCell(from, count);
      if (exact) {
        Store(values + cell * 32, v.low);
        Store(values + cell * 32 + 16, v.high);
      } else {
        StoreBf16(halves + cell * 32, v.low);
        StoreBf16(halves + cell * 32 + 16, v.high);
      }
    });
  }
}

void Prepare(const float* x, int row, Activations& input) { PrepareCells(x, 0, row, row + 1, 0, input.cells().count(), input); }

[[gnu::always_inline]] inline V16 SwiGlu16(V16 gate, V16 up) {
  return Mul(Div(gate, Add(Set(1.0f), Exp(Sub(Zero(), gate)))), up);
}

void SwiGlu(const float* gate, const float* up, std::ptrdiff_t in_stride, int rows, int n, float* out, std::ptrdiff_t out_stride) {
  const int full = n & ~15;
  for (int row = 0; row < rows; ++row, gate += in_stride, up += in_stride, out += out_stride) {
    for (int i = 0; i < full; i += 16) Store(out + i, SwiGlu16(Load(gate + i), Load(up + i)));
    if (full < n) {
      const int rest = n - full;
      StorePartial(out + full, SwiGlu16(LoadPartial(gate + full, rest), LoadPartial(up + full, rest)), rest);
    }
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

void AddRows(const float* x, std::ptrdiff_t x_stride, int rows, int n, float* y, std::ptrdiff_t y_stride) {
  const int full = n & ~15;
  for (int row = 0; row < rows; ++row, x += x_stride, y += y_stride) {
    for (int i = 0; i < full; i += 16) Store(y + i, Add(Load(y + i), Load(x + i)));
    if (full < n) {
      const int rest = n - full;
      StorePartial(y + full, Add(LoadPartial(y + full, rest), LoadPartial(x + full, rest)), rest);
    }
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
                                    .add = AddRows,
                                    .argmax = ArgMax,
                                    .max = MaxOf,
                                    .sum_exp = SumExp,
                                    .exp = ExpOne,
                                    .log = LogOne};

}  // namespace
}  // namespace skein::kernels
