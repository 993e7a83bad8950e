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
