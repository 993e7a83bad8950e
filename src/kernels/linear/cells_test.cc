// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/cells.h"

#include <gtest/gtest.h>

namespace skein::kernels {
namespace {

// Would break: scales would span two ranks' shares, so that a sharded model differs from a single rank's.
TEST(Cells, CoverColumnsOnceInsideSlicesAndGroups) {
  for (const int k : {1, 24, 31, 32, 96, 515, 576, 960, 1536}) {
    for (const int width : {0, 24, 32, 64, 80, 192}) {
      const Cells cells = MakeCells(k, width);
      EXPECT_EQ(cells.count() % 2, 0);
      int next = 0;
      bool full = true;
      for (const Cell& cell : cells.cells) {
        ASSERT_EQ(cell.begin, next);
        if (cell.count == 0) continue;
        const int last = cell.begin + cell.count - 1;
        EXPECT_EQ(cell.begin / kCellWidth, last / kCellWidth);
        if (width > 0) {
          EXPECT_EQ(cell.begin / width, last / width);
        }
        full = full && cell.count == kCellWidth;
        next = last + 1;
      }
      EXPECT_EQ(next, k);
      EXPECT_EQ(cells.contiguous, full);
      EXPECT_EQ(cells.stored_columns(), cells.count() * 32);
    }
  }
}

// Would break: heads of 80 columns share a scale group with their neighbours.
TEST(Cells, GroupCutByASliceIsTwoCells) {
  const Cells cells = MakeCells(160, 80);
  ASSERT_EQ(cells.count(), 6);
  EXPECT_EQ(cells.cells[2].begin, 64);
  EXPECT_EQ(cells.cells[2].count, 16);
  EXPECT_EQ(cells.cells[3].begin, 80);
  EXPECT_EQ(cells.cells[3].count, 16);
}

// Would break: a rank's part of a matrix has other scale groups than the whole, and so other bits.
TEST(Cells, APartHasTheCellsOfTheWhole) {
  const Cells whole = MakeCells(240, 80);
  const Cells part = MakeCells(240, 80, 80, 240);
  EXPECT_EQ(part.k, 160);
  EXPECT_EQ(part.row_columns, 240);
  EXPECT_EQ(part.first_column, 80);
  EXPECT_FALSE(part.contiguous);
  ASSERT_EQ(part.count(), 6);
  for (int i = 0; i < part.count(); ++i) {
    const Cell& of_whole = whole.cells[static_cast<std::size_t>(i + 3)];
    EXPECT_EQ(part.cells[static_cast<std::size_t>(i)].begin + 80, of_whole.begin);
    EXPECT_EQ(part.cells[static_cast<std::size_t>(i)].count, of_whole.count);
  }
}

// Would break: the last slice of a layout is not where its activations are.
TEST(Cells, SlicesFollowEachOther) {
  const SlicedCells odd = MakeSlicedCells(300, 96, 96, 300);  // 96, 96, 12
  ASSERT_EQ(odd.slices.size(), 3U);
  EXPECT_EQ(odd.inputs.k, 204);
  EXPECT_FALSE(odd.inputs.contiguous);
  int cell = 0;
  for (const Cells& slice : odd.slices) {
    EXPECT_EQ(slice.first_cell, cell);
    EXPECT_EQ(slice.count() % 2, 0);
    for (int i = 0; i < slice.count(); ++i, ++cell) {
      const Cell& own = slice.cells[static_cast<std::size_t>(i)];
      const Cell& input = odd.inputs.cells[static_cast<std::size_t>(cell)];
      EXPECT_EQ(slice.first_column + own.begin, odd.inputs.first_column + input.begin);
      EXPECT_EQ(own.count, input.count);
    }
  }
  EXPECT_EQ(cell, odd.inputs.count());
  EXPECT_TRUE(MakeSlicedCells(1536, 64, 0, 1536).inputs.contiguous);
}

// Would break: the down projection of a large model has more slices than a mesh may have ranks.
TEST(Cells, FeedForwardHasAtMost32Slices) {
  EXPECT_EQ(FeedForwardSliceWidth(1536), 64);
  EXPECT_EQ(FeedForwardSliceWidth(2048), 64);
  EXPECT_EQ(FeedForwardSliceWidth(2049), 128);
  EXPECT_EQ(FeedForwardSliceWidth(8192), 256);
  EXPECT_EQ(FeedForwardSliceWidth(11008), 384);
}

}  // namespace
}  // namespace skein::kernels
