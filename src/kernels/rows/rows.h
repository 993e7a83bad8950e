// SPDX-License-Identifier: Apache-2.0
//
// rows: element-wise work on single rows of fp32: norm, preparation of activations, RoPE, SwiGLU, residual sums, and the
// passes over logits that sampling needs. Sums are taken in 16 lanes (element i in lane i mod 16, one chain per lane)
// and the lanes combined by a fixed tree (distance 8, 4, 2, 1) on every path; exp and log are our own polynomials, since the
// C library's depend on the processor. So all paths give the same bits; `ref` is plain loops.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/arithmetic.h"
#include "kernels/linear/activations.h"

namespace skein::kernels {

struct RowKernels {
  // out[i] = x[i] * weight[i] / sqrt(mean(x^2) + epsilon), i < n. (RMSNorm: Zhang and Sennrich 2019.)
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int n, float* out) = nullptr;
  // Rounds x[cells.k] as input.arithmetic() wants and writes row `row`. int8g32: scale = max|x| / 127 per cell.
  void (*prepare)(const float* x, int row, Activations& input) = nullptr;
  // The cells [cell_begin, cell_end) of the rows [row_begin, row_end) only; x is where the first cell's columns of the
  // first row stand, the next row's `stride` floats behind: for fusing with what computes some columns at a time.
  void (*prepare_cells)(const float* x, std::ptrdiff_t stride, int row_begin, int row_end, int cell_begin, int cell_end,
                        Activations& input) = nullptr;
  // out[row, i] = silu(gate[row, i]) * up[row, i], i < n; strides in floats, gate and up share theirs.
  void (*swiglu)(const float* gate, const float* up, std::ptrdiff_t in_stride, int rows, int n, float* out,
                 std::ptrdiff_t out_stride) = nullptr;
  // Rotates pairs (i, i + dimensions/2) of one head vector in place: cosine, sine fp32 [dimensions/2].
  void (*rope)(float* head, int dimensions, const float* cosine, const float* sine) = nullptr;
  // y[row, i] += x[row, i], i < n.
  void (*add)(const float* x, std::ptrdiff_t x_stride, int rows, int n, float* y, std::ptrdiff_t y_stride) = nullptr;
  // Index of the largest value, the lowest index among equals; NaN never wins unless all are.
  int (*argmax)(const float* x, int n) = nullptr;
  float (*max)(const float* x, int n) = nullptr;
  // sum of exp(x[i] - shift).
  float (*sum_exp)(const float* x, float shift, int n) = nullptr;
  // Scalar exp and log with the bits of the vector ones.
  float (*exp)(float x) = nullptr;
  float (*log)(float x) = nullptr;
};

const RowKernels& SelectRows(KernelPath path);

// Cosine and sine of RoPE angles in double by our own series, rounded once: position * frequency for each frequency
// [pairs]; `magnitude` multiplies both (yarn's attention factor).
void RopeAngles(int position, const double* frequencies, int pairs, double magnitude, float* cosine, float* sine);

}  // namespace skein::kernels
