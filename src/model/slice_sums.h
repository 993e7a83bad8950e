// SPDX-License-Identifier: Apache-2.0
//
// SliceSums multiplies the slices of a phase (layout-deterministic mode) and adds their partial results in the order of
// slice_tree.h while they are in cache: for 32 columns of up to 64 rows it keeps one tile per level of the tree.
//
// Thread rule: one per worker.
#pragma once

#include <bit>
#include <cstddef>

#include "kernels/linear/linear.h"
#include "kernels/rows/rows.h"
#include "model/inputs.h"
#include "model/share.h"
#include "model/weights.h"

namespace skein::model {

class SliceSums {
 public:
  static constexpr int kRows = 64;  // of a tile at most
  static constexpr int kTileFloats = kRows * kernels::kPanelWidth;
  static int LevelsFor(std::size_t slices) { return static_cast<int>(std::bit_width(slices)) + 1; }

  // `tiles`: fp32 [LevelsFor(slices), kTileFloats].
  SliceSums(const kernels::RowKernels& rows, float* tiles) : rows_(rows), tiles_(tiles) {}

  // Gives the sums of the slices [node.begin, node.end) of `slices`, whose first one is slice `first` of the tree, to `sink`.
  void Run(const std::vector<Matrix>& slices, int first, Span node, Inputs& inputs, int panel_begin, int panel_end, int row_begin,
           int row_end, const kernels::LinearSink& sink, std::byte* scratch);

 private:
  static void Take(void* context, int panel, int row, int rows, const float* tile);
  void Add(int panel, int row, int rows, const float* tile);
  float* Tile(int level, int row) { return tiles_ + level * kTileFloats + (row - first_row_) * kernels::kPanelWidth; }

  const kernels::RowKernels& rows_;
  float* tiles_;
  const kernels::LinearSink* sink_ = nullptr;
  int first_row_ = 0;  // of the tiles
  int place_ = 0;  // of the slice in its node
  bool last_ = false;
};

}  // namespace skein::model
