// SPDX-License-Identifier: Apache-2.0
//
// LinearTask: one call of a linear kernel in raw pointers. linear.cc makes it from the owners, kernels read it, so that
// the files compiled for special instruction sets need no inline functions of classes (panel.h says why).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/arithmetic.h"

namespace skein::kernels {

struct LinearSink;

inline constexpr int kPieceRows = 64;  // a sink takes at most this many rows at once

struct LinearTask {
  const std::byte* panels = nullptr;  // panel 0
  std::size_t panel_stride = 0;       // bytes from panel to panel
  WeightFormat format = WeightFormat::kF32;
  int cells = 0;  // stored cells, even
  int panel_begin = 0, panel_end = 0;
  int row_begin = 0, row_end = 0;
  const std::byte* values = nullptr;  // row 0 of the activations
  std::ptrdiff_t value_stride = 0;    // bytes
  const float* scales = nullptr;      // int8g32: row 0 of scale, scaled_sum and sum
  const float* scaled_sums = nullptr;
  const std::int32_t* sums = nullptr;
  std::ptrdiff_t scale_stride = 0;    // elements
  const std::uint8_t* uneven = nullptr;         // row 0 of uneven, residual (as far apart as values) and residual_sum
  std::ptrdiff_t uneven_stride = 0;
  const std::int8_t* residuals = nullptr;
  const std::int32_t* residual_sums = nullptr;
  bool ask_ahead = false;  // CpuFeatures::prefetch_pays
  void (*take)(void* context, int panel, int row, int rows, const float* tile) = nullptr;
  void* context = nullptr;
  std::byte* scratch = nullptr;
};

using LinearFunction = void (*)(const LinearTask& task);

// One row of the table of kernels: what linear.cc chooses from.
struct LinearVariant {
  KernelPath path;
  WeightFormat format;
  Arithmetic arithmetic;
  LinearFunction run;
};

}  // namespace skein::kernels
