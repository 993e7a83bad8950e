// SPDX-License-Identifier: Apache-2.0
#include "model/slice_sums.h"

#include <algorithm>
#include <cstring>

namespace skein::model {

using kernels::kPanelWidth;

void SliceSums::Run(const std::vector<Matrix>& slices, int first, const SummedNode& node, Inputs& inputs, int panel_begin, int panel_end,
                    int row_begin, int row_end, const kernels::LinearSink& sink, std::byte* scratch) {
  sink_ = &sink;
  const auto begin = static_cast<std::size_t>(node.slices.begin - first);
  for (int panel = panel_begin; panel < panel_end; ++panel) {
    for (int row = row_begin; row < row_end; row += kRows) {
      first_row_ = row;
      for (std::size_t i = 0; i < node.steps.size(); ++i) {
        const Matrix& matrix = slices[begin + i];
        step_ = node.steps[i];
        last_ = i + 1 == node.steps.size();
        matrix.kernel.run(matrix.packed, panel, panel + 1, inputs.of(matrix.arithmetic), row, std::min(row + kRows, row_end),
                          {&Take, this}, scratch);
      }
    }
  }
}

void SliceSums::Take(void* context, int panel, int row, int rows, const float* tile) {
  static_cast<SliceSums*>(context)->Add(panel, row, rows, tile);
}

void SliceSums::Add(int panel, int row, int rows, const float* tile) {
  int depth = step_.depth;
  for (int merge = 0; merge < step_.merges; ++merge) {
    float* sum = Tile(--depth, row);
    rows_.add(tile, kPanelWidth, rows, kPanelWidth, sum, kPanelWidth);
    tile = sum;
  }
  if (last_) return sink_->take(sink_->context, panel, row, rows, tile);
  if (step_.merges == 0) std::memcpy(Tile(depth, row), tile, static_cast<std::size_t>(rows) * kPanelWidth * sizeof(float));
}

}  // namespace skein::model
