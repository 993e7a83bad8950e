// SPDX-License-Identifier: Apache-2.0
//
// Activations: rows of inputs of a linear layer, rounded as an arithmetic wants them and laid out by cells. Filled by
// rows/prepare (one row at a time, fused with what makes the row), read by linear kernels.
//
// Thread rule: rows are written by one worker each; a barrier lies between writing and reading.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/arithmetic.h"
#include "kernels/linear/cells.h"
#include "tensor/buffer.h"

namespace skein::kernels {

// Layout, stored columns = cells.count() * 32, row strides padded so that consecutive rows do not share a cache set:
//   int8g32  q int8 [rows, stored columns], inside each quad in the order k0 k2 k1 k3 (what a panel's bytes want);
//            scale fp32 [rows, cells]; sum int32 [rows, cells] = sum of q. In an *uneven* cell one value stands so far out
//            that little is left for the others (sum of |q| at most uneven_sum): uneven uint8 [rows, cells] is 1 there,
//            residual int8, laid out as q, holds what rounding left, in 1/256 of a step, and residual_sum its sum;
//            scaled_sum fp32 = scale * (sum + residual_sum / 256)
//   bf16t/p  value bf16 [rows, stored columns]
//   exact    value fp32 [rows, stored columns]
class Activations {
 public:
  Activations() = default;
  // Room for `rows` rows; everything zero, so that unused places of cells stay zero for ever.
  Activations(Arithmetic arithmetic, const Cells& cells, int rows, int uneven_sum = kUnevenSum);

  Arithmetic arithmetic() const { return arithmetic_; }
  const Cells& cells() const { return *cells_; }
  int rows() const { return rows_; }
  int uneven_sum() const { return uneven_sum_; }

  std::int8_t* q(int row) { return reinterpret_cast<std::int8_t*>(values_.data()) + row * value_stride_; }
  const std::int8_t* q(int row) const { return reinterpret_cast<const std::int8_t*>(values_.data()) + row * value_stride_; }
  std::uint16_t* bf16(int row) { return reinterpret_cast<std::uint16_t*>(values_.data() + row * value_stride_); }
  const std::uint16_t* bf16(int row) const {
    return reinterpret_cast<const std::uint16_t*>(values_.data() + row * value_stride_);
  }
  float* f32(int row) { return reinterpret_cast<float*>(values_.data() + row * value_stride_); }
  const float* f32(int row) const { return reinterpret_cast<const float*>(values_.data() + row * value_stride_); }
  float* scale(int row) { return scales_.as<float>() + row * scale_stride_; }
  const float* scale(int row) const { return scales_.as<float>() + row * scale_stride_; }
  float* scaled_sum(int row) { return scaled_sums_.as<float>() + row * scale_stride_; }
  const float* scaled_sum(int row) const { return scaled_sums_.as<float>() + row * scale_stride_; }
  std::int32_t* sum(int row) { return sums_.as<std::int32_t>() + row * scale_stride_; }
  const std::int32_t* sum(int row) const { return sums_.as<std::int32_t>() + row * scale_stride_; }
  std::int8_t* residual(int row) { return residuals_.as<std::int8_t>() + row * value_stride_; }
  const std::int8_t* residual(int row) const { return residuals_.as<std::int8_t>() + row * value_stride_; }
  std::int32_t* residual_sum(int row) { return residual_sums_.as<std::int32_t>() + row * scale_stride_; }
  const std::int32_t* residual_sum(int row) const { return residual_sums_.as<std::int32_t>() + row * scale_stride_; }
  // Rows are `uneven_stride` apart, a multiple of 64; what lies behind the cells is 0.
  std::uint8_t* uneven(int row) { return uneven_.as<std::uint8_t>() + row * uneven_stride_; }
  const std::uint8_t* uneven(int row) const { return uneven_.as<std::uint8_t>() + row * uneven_stride_; }
  std::ptrdiff_t uneven_stride() const { return uneven_stride_; }
  std::ptrdiff_t value_stride_bytes() const { return value_stride_; }
  std::ptrdiff_t cell_bytes() const { return cell_bytes_; }  // of the values of one cell

 private:
  Arithmetic arithmetic_ = Arithmetic::kExact;
  const Cells* cells_ = nullptr;  // not owned: the packed matrix's, which outlives this
  int rows_ = 0;
  int uneven_sum_ = kUnevenSum;
  std::ptrdiff_t value_stride_ = 0;  // bytes
  std::ptrdiff_t cell_bytes_ = 0;
  std::ptrdiff_t scale_stride_ = 0;  // elements
  std::ptrdiff_t uneven_stride_ = 0;
  Buffer values_, scales_, scaled_sums_, sums_;
  Buffer residuals_, residual_sums_, uneven_;
};

}  // namespace skein::kernels
