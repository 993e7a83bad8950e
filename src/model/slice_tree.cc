// SPDX-License-Identifier: Apache-2.0
#include "model/slice_tree.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"

namespace skein::model {
namespace {

class Tree {
 public:
  explicit Tree(int slices) : slices_(slices) {}

  struct Node {
    int level = 0, index = 0;
    Node Left() const { return {level + 1, 2 * index}; }
    Node Right() const { return {level + 1, 2 * index + 1}; }
  };
  Span Of(Node node) const { return {Bound(node.level, node.index), Bound(node.level, node.index + 1)}; }

 private:
  // round(slices * k / 2^level), halves up.
  int Bound(int level, int k) const {
    const std::int64_t twice = (std::int64_t{2} * slices_ * k + (std::int64_t{1} << level)) >> (level + 1);
    return static_cast<int>(twice);
  }
  int slices_;
};

void AddNodes(const Tree& tree, Tree::Node at, Span owned, std::vector<Span>& nodes) {
  const Span node = tree.Of(at);
  if (node.empty() || node.end <= owned.begin || node.begin >= owned.end) return;
  if (node.begin >= owned.begin && node.end <= owned.end) {
    nodes.push_back(node);
    return;
  }
  AddNodes(tree, at.Left(), owned, nodes);
  AddNodes(tree, at.Right(), owned, nodes);
}

// The place of the node's sum; -1 for an empty node.
int AddMerges(const Tree& tree, Tree::Node at, const std::vector<Span>& nodes, std::vector<Merge>& merges) {
  const Span node = tree.Of(at);
  if (node.empty()) return -1;
  const auto found = std::find(nodes.begin(), nodes.end(), node);
  if (found != nodes.end()) return static_cast<int>(found - nodes.begin());
  SKEIN_CHECK(node.size() > 1);
  const int left = AddMerges(tree, at.Left(), nodes, merges), right = AddMerges(tree, at.Right(), nodes, merges);
  if (left < 0 || right < 0) return std::max(left, right);
  merges.push_back({left, right});
  return left;
}

// Counts, at the last slice of each node that is a right child, the merge that completes its parent.
void AddSteps(const Tree& tree, Tree::Node at, Span whole, int depth, std::vector<StackStep>& steps) {
  const Span node = tree.Of(at);
  if (node.end <= whole.begin || node.begin >= whole.end || node.empty()) return;
  const bool inside = node.begin >= whole.begin && node.end <= whole.end;
  if (inside && node.size() == 1) {
    steps[static_cast<std::size_t>(node.begin - whole.begin)].depth = depth;
    return;
  }
  const Span left = tree.Of(at.Left()), right = tree.Of(at.Right());
  AddSteps(tree, at.Left(), whole, depth, steps);
  AddSteps(tree, at.Right(), whole, inside && !left.empty() ? depth + 1 : depth, steps);
  if (inside && !left.empty() && !right.empty()) ++steps[static_cast<std::size_t>(node.end - 1 - whole.begin)].merges;
}

}  // namespace

std::vector<Span> OwnedNodes(int slices, Span owned) {
  std::vector<Span> nodes;
  if (!owned.empty()) AddNodes(Tree(slices), {}, owned, nodes);
  return nodes;
}

std::vector<Merge> MergesOf(int slices, const std::vector<Span>& nodes) {
  std::vector<Merge> merges;
  AddMerges(Tree(slices), {}, nodes, merges);
  return merges;
}

std::vector<StackStep> StackStepsOf(int slices, Span node) {
  std::vector<StackStep> steps(static_cast<std::size_t>(node.size()));
  AddSteps(Tree(slices), {}, node, 0, steps);
  return steps;
}

int DepthOf(const std::vector<StackStep>& steps) {
  int depth = 1;
  for (const StackStep& step : steps) depth = std::max(depth, step.depth + 1);
  return depth;
}

}  // namespace skein::model
