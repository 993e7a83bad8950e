// SPDX-License-Identifier: Apache-2.0
#include "model/slice_tree.h"

#include <algorithm>

#include "base/check.h"

namespace skein::model {
namespace {

int LevelOfRoot(int slices) {
  int level = 0;
  while ((1 << level) < slices) ++level;
  return level;
}

void AddNodes(int slices, Span owned, int begin, int level, std::vector<Span>& nodes) {
  const Span node{begin, std::min(begin + (1 << level), slices)};
  if (node.empty() || node.end <= owned.begin || node.begin >= owned.end) return;
  if (node.begin >= owned.begin && node.end <= owned.end) {
    nodes.push_back(node);
    return;
  }
  AddNodes(slices, owned, begin, level - 1, nodes);
  AddNodes(slices, owned, begin + (1 << (level - 1)), level - 1, nodes);
}

// The place of the node's sum.
int AddMerges(int slices, const std::vector<Span>& nodes, int begin, int level, std::vector<Merge>& merges) {
  const Span node{begin, std::min(begin + (1 << level), slices)};
  const auto found = std::find(nodes.begin(), nodes.end(), node);
  if (found != nodes.end()) return static_cast<int>(found - nodes.begin());
  SKEIN_CHECK(level > 0);
  const int left = AddMerges(slices, nodes, begin, level - 1, merges);
  const int middle = begin + (1 << (level - 1));
  if (middle < slices) merges.push_back({left, AddMerges(slices, nodes, middle, level - 1, merges)});
  return left;
}

}  // namespace

std::vector<Span> OwnedNodes(int slices, Span owned) {
  std::vector<Span> nodes;
  if (!owned.empty()) AddNodes(slices, owned, 0, LevelOfRoot(slices), nodes);
  return nodes;
}

std::vector<Merge> MergesOf(int slices, const std::vector<Span>& nodes) {
  std::vector<Merge> merges;
  AddMerges(slices, nodes, 0, LevelOfRoot(slices), merges);
  return merges;
}

}  // namespace skein::model
