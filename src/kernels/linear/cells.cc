// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/cells.h"

#include <algorithm>

#include "base/check.h"

namespace skein::kernels {

Cells MakeCells(int k, int slice_width) {
  SKEIN_CHECK(k > 0);
  SKEIN_CHECK(slice_width >= 0);
  Cells result;
  result.k = k;
  result.contiguous = true;
  for (int begin = 0; begin < k;) {
    const int group_end = (begin / kCellWidth + 1) * kCellWidth;
    const int slice_end = slice_width == 0 ? k : std::min(k, (begin / slice_width + 1) * slice_width);
    const int end = std::min({group_end, slice_end, k});
    result.cells.push_back({begin, end - begin});
    if (end - begin != kCellWidth) result.contiguous = false;
    begin = end;
  }
  if (result.cells.size() % 2 != 0) result.cells.push_back({k, 0});
  return result;
}

int FeedForwardSliceWidth(int k) {
  constexpr int kUnit = 64;
  constexpr int kSlicesMax = 32;
  return kUnit * ((k + kUnit * kSlicesMax - 1) / (kUnit * kSlicesMax));
}

}  // namespace skein::kernels
