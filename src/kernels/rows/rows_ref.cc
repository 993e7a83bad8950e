// SPDX-License-Identifier: Apache-2.0
//
// The row kernels as plain loops: what they mean, bit for bit. Slow and obvious; never optimised.
#include <cmath>

#include "kernels/rows/rows_paths.h"
#include "kernels/simd/scalar_math.h"

namespace skein::kernels {
namespace {

// Sums as every path does: 16 lanes, then the tree.
class LaneSum {
 public:
  void Add(int i, float x) { lane_[i % 16] += x; }
  void AddProduct(int i, float x, float y) { lane_[i % 16] = std::fma(x, y, lane_[i % 16]); }
  float Total() const {
    float sum[16];
    for (int i = 0; i < 16; ++i) sum[i] = lane_[i];
    for (int distance = 8; distance > 0; distance /= 2) {
      for (int i = 0; i < distance; ++i) sum[i] += sum[i + distance];
    }
    return sum[0];
  }

 private:
  float lane_[16] = {};
};

void RmsNorm(const float* x, const float* weight, float epsilon, int n, float* out) {
  LaneSum squares;
  for (int i = 0; i < n; ++i) squares.AddProduct(i, x[i], x[i]);
  const float mean = squares.Total() / static_cast<float>(n);
  const float factor = 1.0f / std::sqrt(mean + epsilon);
  for (int i = 0; i < n; ++i) out[i] = (x[i] * factor) * weight[i];
}

void PrepareInt8Cell(const float* x, int count, int row, int cell, Activations& input) {
  float largest = 0.0f;
  for (int i = 0; i < count; ++i) largest = std::fabs(x[i]) > largest ? std::fabs(x[i]) : largest;
  const bool zero = largest < math::kSmallestMagnitude;
  const float scale = zero ? 0.0f : largest / 127.0f;
  const float inverse = zero ? 0.0f : 127.0f / largest;
  static constexpr int kPlaceInQuad[4] = {0, 2, 1, 3};
  int sum = 0, magnitudes = 0;
  for (int i = 0; i < 32; ++i) {
    const int q = i < count ? static_cast<int>(std::nearbyint(x[i] * inverse)) : 0;
    input.q(row)[cell * 32 + i / 4 * 4 + kPlaceInQuad[i % 4]] = static_cast<std::int8_t>(q);
    sum += q;
    magnitudes += q < 0 ? -q : q;
  }
  const bool uneven = !zero && magnitudes <= input.uneven_sum();
  int residual_sum = 0;
  for (int i = 0; uneven && i < 32; ++i) {
    const float y = i < count ? x[i] * inverse : 0.0f;
    const float left = std::nearbyint((y - std::nearbyint(y)) * 256.0f);
    const int q = left > 127.0f ? 127 : static_cast<int>(left);
    input.residual(row)[cell * 32 + i / 4 * 4 + kPlaceInQuad[i % 4]] = static_cast<std::int8_t>(q);
    residual_sum += q;
  }
  input.uneven(row)[cell] = uneven ? 1 : 0;
  input.scale(row)[cell] = scale;
  input.sum(row)[cell] = sum;
  if (uneven) input.residual_sum(row)[cell] = residual_sum;
  input.scaled_sum(row)[cell] = scale * (static_cast<float>(sum) + static_cast<float>(residual_sum) * kResidualStep);
}

void PrepareRowCells(const float* x, int row, int cell_begin, int cell_end, Activations& input) {
  for (int cell = cell_begin; cell < cell_end; ++cell) {
    const int count = input.cells().cells[static_cast<std::size_t>(cell)].count;
    switch (input.arithmetic()) {
      case Arithmetic::kInt8G32:
        if (count > 0) PrepareInt8Cell(x, count, row, cell, input);
        break;
      case Arithmetic::kBf16T:
      case Arithmetic::kBf16P:
        for (int i = 0; i < count; ++i) input.bf16(row)[cell * 32 + i] = math::ScalarBf16(x[i]);
        break;
      case Arithmetic::kExact:
        for (int i = 0; i < count; ++i) input.f32(row)[cell * 32 + i] = x[i];
        break;
    }
    x += count;
  }
}

void PrepareCells(const float* x, std::ptrdiff_t stride, int row_begin, int row_end, int cell_begin, int cell_end, Activations& input) {
  for (int row = row_begin; row < row_end; ++row) PrepareRowCells(x + (row - row_begin) * stride, row, cell_begin, cell_end, input);
}

void Prepare(const float* x, int row, Activations& input) { PrepareRowCells(x, row, 0, input.cells().count(), input); }

void SwiGlu(const float* gate, const float* up, std::ptrdiff_t in_stride, int rows, int n, float* out, std::ptrdiff_t out_stride) {
  for (int row = 0; row < rows; ++row, gate += in_stride, up += in_stride, out += out_stride) {
    for (int i = 0; i < n; ++i) out[i] = (gate[i] / (1.0f + math::ScalarExp(0.0f - gate[i]))) * up[i];
  }
}

void Rope(float* head, int dimensions, const float* cosine, const float* sine) {
  const int half = dimensions / 2;
  for (int i = 0; i < half; ++i) {
    const float x = head[i], y = head[half + i];
    head[i] = std::fma(x, cosine[i], 0.0f - y * sine[i]);
    head[half + i] = std::fma(x, sine[i], y * cosine[i]);
  }
}

void AddRows(const float* x, std::ptrdiff_t x_stride, int rows, int n, float* y, std::ptrdiff_t y_stride) {
  for (int row = 0; row < rows; ++row, x += x_stride, y += y_stride) {
    for (int i = 0; i < n; ++i) y[i] = y[i] + x[i];
  }
}

float MaxOf(const float* x, int n) {
  float largest = -HUGE_VALF;
  for (int i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest + 0.0f;
}

int ArgMax(const float* x, int n) {
  const float largest = MaxOf(x, n);
  for (int i = 0; i < n; ++i) {
    if (x[i] == largest) return i;
  }
  return 0;
}

float SumExp(const float* x, float shift, int n) {
  LaneSum sum;
  for (int i = 0; i < n; ++i) sum.Add(i, math::ScalarExp(x[i] - shift));
  return sum.Total();
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

const RowKernels& RowsRef() { return kRowKernels; }

}  // namespace skein::kernels
