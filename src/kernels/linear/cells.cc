// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/cells.h"

#include <algorithm>

#include "base/check.h"

namespace skein::kernels {

Cells MakeCells(int k, int slice_width) { return MakeCells(k, slice_width, 0, k); }

Cells MakeCells(int row_columns, int slice_width, int begin, int end) {
  SKEIN_CHECK(begin >= 0 && begin < end && end <= row_columns);
  SKEIN_CHECK(slice_width >= 0);
  Cells result;
  result.k = end - begin;
  result.contiguous = true;
  result.row_columns = row_columns;
  result.first_column = begin;
  for (int at = begin; at < end;) {
    const int group_end = (at / kCellWidth + 1) * kCellWidth;
    const int slice_end = slice_width == 0 ? end : (at / slice_width + 1) * slice_width;
    const int next = std::min({group_end, slice_end, end});
    result.cells.push_back({at - begin, next - at});
    if (next - at != kCellWidth) result.contiguous = false;
    at = next;
  }
  if (result.cells.size() % 2 != 0) result.cells.push_back({result.k, 0});
  return result;
}

SlicedCells MakeSlicedCells(int row_columns, int slice_width, int begin, int end) {
  SKEIN_CHECK(slice_width > 0 && begin % slice_width == 0);
  SlicedCells result;
  Cells& inputs = result.inputs;
  inputs.k = end - begin;
  inputs.row_columns = row_columns;
  inputs.first_column = begin;
  inputs.contiguous = true;
  for (int at = begin; at < end; at += slice_width) {
    Cells slice = MakeCells(row_columns, slice_width, at, std::min(at + slice_width, end));
    slice.first_cell = inputs.count();
    for (const Cell& cell : slice.cells) {
      inputs.contiguous = inputs.contiguous && cell.begin + (at - begin) == inputs.stored_columns();
      inputs.cells.push_back({cell.begin + (at - begin), cell.count});
    }
    result.slices.push_back(std::move(slice));
  }
  return result;
}

int FeedForwardSliceWidth(int k) {
  constexpr int kUnit = 64;
  constexpr int kSlicesMax = 32;
  return kUnit * ((k + kUnit * kSlicesMax - 1) / (kUnit * kSlicesMax));
}

}  // namespace skein::kernels
