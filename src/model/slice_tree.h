// SPDX-License-Identifier: Apache-2.0
//
// SliceTree: the order in which the layout-deterministic mode adds the partial results of slices (docs/numerics.md). Slices are the
// leaves of the aligned binary tree: node (level, i) covers slices [i * 2^level, (i + 1) * 2^level), cut at their number; its sum is its
// left child's plus its right child's, or the left one's alone. A rank forms the sums of the largest nodes that it owns; merging those of
// all ranks gives the root's.
//
// Pure functions.
#pragma once

#include <vector>

#include "model/share.h"

namespace skein::model {

// The largest nodes of the tree over `slices` within `owned`, in order.
std::vector<Span> OwnedNodes(int slices, Span owned);

// sum[into] += sum[from].
struct Merge {
  int into = 0, from = 0;
};
// What makes the root's sum of those of `nodes`, which cover all slices in order; it ends in the first one.
std::vector<Merge> MergesOf(int slices, const std::vector<Span>& nodes);

}  // namespace skein::model
