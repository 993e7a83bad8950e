// SPDX-License-Identifier: Apache-2.0
//
// Sinks: what a phase does with 32 columns of finished results while they are in L1. Plain functions with a context;
// a tile is fp32 [rows, 32] (kernels/linear/linear.h).
#pragma once

#include <cstddef>

#include "kernels/rows/rows.h"

namespace skein::model {

// out[row, first_column + column] = result (+ bias).
struct ColumnSink {
  float* out = nullptr;
  std::ptrdiff_t stride = 0;    // floats
  const float* bias = nullptr;  // by column of the phase, or null
  int first_column = 0;         // of the matrix in the phase
  int columns = 0;              // of the matrix
  static void Take(void* context, int panel, int row, int rows, const float* tile);
};

// residual[row, column] += result (+ bias, added to the result first).
struct ResidualSink {
  float* residual = nullptr;
  std::ptrdiff_t stride = 0;
  const float* bias = nullptr;
  const kernels::RowKernels* rows = nullptr;
  int first_column = 0;
  int columns = 0;
  static void Take(void* context, int panel, int row, int rows, const float* tile);
};

// A panel has 16 columns of gate, then the same 16 of up: out[row, 16 * panel + i] = silu(gate) * up. `stride` leaves
// room for whole panels.
struct SwiGluSink {
  static constexpr int kScratchFloats = 64 * 32;  // a tile
  float* out = nullptr;
  std::ptrdiff_t stride = 0;
  const float* bias = nullptr;  // by column of the matrix, or null
  const kernels::RowKernels* rows = nullptr;
  float* scratch = nullptr;     // of the worker, kScratchFloats
  int first_column = 0;
  int columns = 0;
  static void Take(void* context, int panel, int row, int rows, const float* tile);
};

}  // namespace skein::model
