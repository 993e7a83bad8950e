// SPDX-License-Identifier: Apache-2.0
#include "model/slice_sums.h"

#include <algorithm>
#include <cstring>

namespace skein::model {

using kernels::kPanelWidth;

void SliceSums::Run(const std::vector<Matrix>& slices, int first, Span node, Inputs& inputs, int panel_begin, int panel_end,
                    int row_begin, int row_end, const kernels::LinearSink& sink, std::byte* scratch) {
  sink_ = &sink;
  for (int panel = panel_begin; panel < panel_end; ++panel) {
    for (int row = row_begin; row < row_end; row += kRows) {
      first_row_ = row;
      for (int slice = node.begin; slice < node.end; ++slice) {
        const Matrix& matrix = slices[static_cast<std::size_t>(slice - first)];
        place_ = slice - node.begin;
        last_ = slice + 1 == node.end;
        matrix.kernel.run(matrix.packed, panel, panel + 1, inputs.of(matrix.arithmetic), row, std::min(row + kRows, row_end),
                          {&Take, this}, scratch);
      }
    }
  }
}

void SliceSums::Take(void* context, int panel, int row, int rows, const float* tile) {
  static_cast<SliceSums*>(context)->Add(panel, row, rows, tile);
}

// Like counting in binary: each bit that is carried is a node that is complete.
void SliceSums::Add(int panel, int row, int rows, const float* tile) {
  const auto add_to = [&](int level) {
    float* sum = Tile(level, row);
    rows_.add(tile, kPanelWidth, rows, kPanelWidth, sum, kPanelWidth);
    tile = sum;
  };
  int level = 0;
  for (; (place_ >> level & 1) != 0; ++level) add_to(level);
  if (!last_) {
    std::memcpy(Tile(level, row), tile, static_cast<std::size_t>(rows) * kPanelWidth * sizeof(float));
    return;
  }
  // What is open above has no right child any more.
  for (++level; (place_ >> level) != 0; ++level) {
    if ((place_ >> level & 1) != 0) add_to(level);
  }
  sink_->take(sink_->context, panel, row, rows, tile);
}

}  // namespace skein::model
