// SPDX-License-Identifier: Apache-2.0
//
// Inputs: the rows that the matrices of a phase multiply, once for every arithmetic among them (most models have one).
//
// Thread rule: rows are prepared by one worker each; a barrier lies between preparing and multiplying, unless the
// worker has an Inputs of its own.
#pragma once

#include <array>
#include <vector>

#include "kernels/linear/activations.h"
#include "kernels/rows/rows.h"
#include "model/weights.h"

namespace skein::model {

class Inputs {
 public:
  // Makes room for the arithmetics of `matrices`, which must outlive this and share their cells.
  void Reserve(const std::vector<Matrix>& matrices, int rows, int uneven_sum = kernels::kUnevenSum) {
    if (!matrices.empty()) Reserve(matrices, matrices.front().packed.cells(), rows, uneven_sum);
  }
  // Each of them multiplies some of `cells`, which outlive this.
  void Reserve(const std::vector<Matrix>& matrices, const kernels::Cells& cells, int rows, int uneven_sum = kernels::kUnevenSum) {
    for (const Matrix& matrix : matrices) {
      kernels::Activations& activations = of(matrix.arithmetic);
      if (activations.rows() == 0) activations = kernels::Activations(matrix.arithmetic, cells, rows, uneven_sum);
    }
  }

  kernels::Activations& of(kernels::Arithmetic arithmetic) { return by_arithmetic_[static_cast<std::size_t>(arithmetic)]; }

  // Rounds x [k] into row `row` for each of `matrices`.
  void Prepare(const kernels::RowKernels& kernels, const std::vector<Matrix>& matrices, const float* x, int row) {
    ForEach(matrices, [&](kernels::Activations& into) { kernels.prepare(x, row, into); });
  }
  // The cells [begin, end) of the rows [row_begin, row_end) only; x: the first row's first column of them.
  void PrepareCells(const kernels::RowKernels& kernels, const std::vector<Matrix>& matrices, const float* x,
                    std::ptrdiff_t stride, int row_begin, int row_end, int begin, int end) {
    ForEach(matrices, [&](kernels::Activations& into) {
      kernels.prepare_cells(x, stride, row_begin, row_end, begin, end, into);
    });
  }

 private:
  template <typename Function>
  void ForEach(const std::vector<Matrix>& matrices, Function function) {
    unsigned done = 0;
    for (const Matrix& matrix : matrices) {
      const unsigned bit = 1u << static_cast<unsigned>(matrix.arithmetic);
      if ((done & bit) == 0) function(of(matrix.arithmetic));
      done |= bit;
    }
  }

  std::array<kernels::Activations, 4> by_arithmetic_;
};

}  // namespace skein::model
