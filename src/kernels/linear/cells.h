// SPDX-License-Identifier: Apache-2.0
//
// Cells: how K, the inner dimension of a matrix product, is cut. A *slice* is what one rank can own (architecture.md
// §4): one slice per query head for the attention output, at most 32 slices at multiples of 64 for the feed-forward's
// down projection, one slice where K is the residual. A *group* is 32 consecutive columns by absolute index (the scale
// groups of quantised weights). A *cell* is a maximal run of columns inside one slice and one group, so at most 32
// columns; every cell is stored with room for 32, the rest zero. No scale of weights or activations crosses a cell.
// Sums over K visit cells in order. The number of stored cells is even (4-bit panels pack two together); an added
// empty cell contributes zeros.
#pragma once

#include <vector>

namespace skein::kernels {

inline constexpr int kCellWidth = 32;

struct Cell {
  int begin = 0;  // first column
  int count = 0;  // 1..32; 0 for the cell that makes the number even
};

struct Cells {
  int k = 0;                // columns of the matrix: of its inputs
  std::vector<Cell> cells;  // stored cells, even in number
  bool contiguous = false;  // every cell but an added one is full: stored place == column
  // Where a rank or a slice has a part of a matrix's columns, which are row_columns in the file: its first one …
  int row_columns = 0;
  int first_column = 0;
  // … and the first of its cells among those of the activations that it is multiplied with.
  int first_cell = 0;

  int count() const { return static_cast<int>(cells.size()); }
  int stored_columns() const { return count() * kCellWidth; }
};

// Cuts K columns at multiples of `slice_width` (0: one slice) and of 32. Requires: k > 0.
Cells MakeCells(int k, int slice_width);
// The same for the columns [begin, end) of rows of `row_columns` only; columns of cells count from `begin`. Groups and slices are
// those of the whole row. Requires: 0 <= begin < end <= row_columns.
Cells MakeCells(int row_columns, int slice_width, int begin, int end);

// Each slice of [begin, end) apart, and the cells of activations that all of them are multiplied with (`inputs`).
// Requires: begin and end are ends of slices.
struct SlicedCells {
  std::vector<Cells> slices;
  Cells inputs;
};
SlicedCells MakeSlicedCells(int row_columns, int slice_width, int begin, int end);

// The slice width of the down projection: the smallest multiple of 64 that gives at most 32 slices.
int FeedForwardSliceWidth(int k);

}  // namespace skein::kernels
