// SPDX-License-Identifier: Apache-2.0
//
// SliceSums multiplies the slices of a phase (layout-deterministic mode) and adds their partial results in the order of
// slice_tree.h while they are in cache: for 32 columns of up to 64 rows it keeps a stack of tiles.
//
// Thread rule: one per worker.
#pragma once

#include <cstddef>

#include "kernels/linear/linear.h"
#include "kernels/rows/rows.h"
#include "model/inputs.h"
#include "model/slice_tree.h"
#include "model/weights.h"

namespace skein::model {

// A node of the tree that a rank forms the sum of.
struct SummedNode {
  Span slices;
  std::vector<StackStep> steps;
};

class SliceSums {
 public:
  static constexpr int kRows = 64;  // of a tile at most
  static constexpr int kTileFloats = kRows * kernels::kPanelWidth;

  // `tiles`: fp32 [DepthOf(steps), kTileFloats].
  SliceSums(const kernels::RowKernels& rows, float* tiles) : rows_(rows), tiles_(tiles) {}

  // Gives the node's sum of `slices`, whose first one is slice `first` of the tree, to `sink`.
  void Run(const std::vector<Matrix>& slices, int first, const SummedNode& node, Inputs& inputs, int panel_begin, int panel_end,
           int row_begin, int row_end, const kernels::LinearSink& sink, std::byte* scratch);

 private:
  static void Take(void* context, int panel, int row, int rows, const float* tile);
  void Add(int panel, int row, int rows, const float* tile);
  float* Tile(int depth, int row) { return tiles_ + depth * kTileFloats + (row - first_row_) * kernels::kPanelWidth; }

  const kernels::RowKernels& rows_;
  float* tiles_;
  const kernels::LinearSink* sink_ = nullptr;
  int first_row_ = 0;  // of the tiles
  StackStep step_;     // of the slice that is multiplied
  bool last_ = false;
};

}  // namespace skein::model
