// SPDX-License-Identifier: Apache-2.0
//
// linear: y = W x for rows of activations against panels of a packed matrix. Cost: 2 * rows * k * outputs operations;
// at one row it is bound by reading the panels once. The result of a row does not depend on the other rows, on the
// range of panels or on the kernel path.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "kernels/arithmetic.h"
#include "kernels/linear/activations.h"
#include "kernels/linear/packed_linear.h"

namespace skein::kernels {

// Receives finished results while they are in L1: `rows` rows from `row`, 32 columns of `panel`, fp32 [rows, 32].
// Column scales are applied already. What follows (bias, residual, RoPE, SwiGLU) is the caller's.
struct LinearSink {
  void (*take)(void* context, int panel, int row, int rows, const float* tile) = nullptr;
  void* context = nullptr;
};

struct LinearKernel {
  std::string_view name;  // "amx/bf16t/w4min"
  // Computes panels [panel_begin, panel_end) for rows [row_begin, row_end). `scratch` belongs to the calling worker
  // and has ScratchBytes() bytes, aligned to 64. Calls sink.take for pieces of at most 64 rows, in any order.
  // Requires: input.arithmetic() is the kernel's; the matrix's cells are input.cells() from its first_cell on.
  void (*run)(const PackedLinear& weights, int panel_begin, int panel_end, const Activations& input, int row_begin,
              int row_end, const LinearSink& sink, std::byte* scratch) = nullptr;
  std::size_t (*scratch_bytes)(const Cells& cells) = nullptr;
};

// The kernel of a path for a format and an arithmetic; where the path has none, that of the next plainer path.
// Requires: HasArithmetic(format, arithmetic).
LinearKernel SelectLinear(KernelPath path, WeightFormat format, Arithmetic arithmetic);

// All kernels of exactly this path that the processor can run, chosen or not; none where the path has none. For tests and benchmarks.
// Requires: the path is one of AvailablePaths().
std::vector<LinearKernel> RunnableLinear(KernelPath path, WeightFormat format, Arithmetic arithmetic);

}  // namespace skein::kernels
