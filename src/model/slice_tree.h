// SPDX-License-Identifier: Apache-2.0
//
// SliceTree: the order in which the layout-deterministic mode adds the partial results of slices (docs/numerics.md). Node k of level l covers
// the slices from round(n k / 2^l) to round(n (k + 1) / 2^l) of n; its sum is that of its left child (level l + 1, 2k) plus that of its right
// one, or the one that is not empty. So 2, 4, 8 … ranks with even shares own one node each. A rank forms the sums of the largest nodes that
// lie in its share; merging those of all ranks gives the root's.
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

// How the sum of one node is formed from its slices, which come one after the other: on a stack. step[i] is for slice node.begin + i.
struct StackStep {
  int depth = 0;   // sums on the stack before
  int merges = 0;  // of so many topmost ones with this slice, each to the left of what there is
};
std::vector<StackStep> StackStepsOf(int slices, Span node);
int DepthOf(const std::vector<StackStep>& steps);

}  // namespace skein::model
