// SPDX-License-Identifier: Apache-2.0
#include "model/share.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "model/slice_tree.h"

namespace skein::model {
namespace {

formats::ModelConfig Config() {
  formats::ModelConfig config;
  config.layers = 30;
  config.hidden = 576;
  config.heads = 9;
  config.kv_heads = 3;
  config.head_dim = 64;
  config.feed_forward = 1536;
  config.vocabulary = 49152;
  return config;
}

ShareRequest At(int pipes, int pipe, int tensors, int tensor) {
  return {.shape = {1, pipes, 1, tensors}, .at = {0, pipe, 0, tensor}};
}

// A head, a column, a row or a layer that nobody has, or that two have, would make wrong answers.
TEST(Share, EverythingIsOwnedOnce) {
  for (const int vocabulary : {49152, 49157, 70, 5}) {
    formats::ModelConfig config = Config();
    config.vocabulary = vocabulary;
    for (int tensors = 1; tensors <= 11; ++tensors) {
      Span heads, columns, words;
      for (int tensor = 0; tensor < tensors; ++tensor) {
        const Share share = ShareOf(config, At(1, 0, tensors, tensor));
        EXPECT_EQ(share.heads.begin, heads.end);
        EXPECT_EQ(share.columns.begin, columns.end);
        EXPECT_EQ(share.vocabulary.begin, words.end);
        EXPECT_EQ(share.columns.begin % 64, 0);
        heads.end = share.heads.end;
        columns.end = share.columns.end;
        words.end = share.vocabulary.end;
        for (int head = 0; head < share.kv_heads.size(); ++head) {
          EXPECT_LT(share.FirstQuery(config, head), share.FirstQuery(config, head + 1)) << "a KV head without queries";
        }
        EXPECT_EQ(share.FirstQuery(config, share.kv_heads.size()), share.heads.size());
      }
      EXPECT_EQ(heads.end, 9);
      EXPECT_EQ(columns.end, 1536);
      EXPECT_EQ(words.end, vocabulary);
    }
  }
  for (int pipes = 1; pipes <= 8; ++pipes) {
    int end = 0;
    for (int pipe = 0; pipe < pipes; ++pipe) {
      const Share share = ShareOf(Config(), At(pipes, pipe, 1, 0));
      EXPECT_EQ(share.layers.begin, end);
      EXPECT_FALSE(share.layers.empty());
      end = share.layers.end;
    }
    EXPECT_EQ(end, 30);
  }
}

// The stage with the head would be the slowest, and the others would wait for it.
TEST(Share, TheStageWithTheHeadHasFewerLayers) {
  EXPECT_GT(ShareOf(Config(), At(2, 0, 1, 0)).layers.size(), ShareOf(Config(), At(2, 1, 1, 0)).layers.size());
}

// A slow host would hold up all others by as much as it is slower.
TEST(Share, FollowsSpeeds) {
  ShareRequest request = At(1, 0, 2, 0);
  request.speeds = {2, 1};
  EXPECT_EQ(ShareOf(Config(), request).heads, (Span{0, 6}));
  EXPECT_EQ(ShareOf(Config(), request).columns, (Span{0, 1024}));
}

// Two stages, the second of ranks that are half as fast: half the layers (but for the head), cut as its own ranks are.
TEST(Share, FollowsSpeedsOfStages) {
  ShareRequest request = At(2, 0, 2, 0);
  request.speeds = {2, 2, 0.5, 1.5};
  request.head_layers = 0.001;
  EXPECT_EQ(ShareOf(Config(), request).layers, (Span{0, 20}));
  EXPECT_EQ(ShareOf(Config(), request).columns, (Span{0, 768}));
  request.at = {0, 1, 0, 0};
  EXPECT_EQ(ShareOf(Config(), request).layers, (Span{20, 30}));
  EXPECT_EQ(ShareOf(Config(), request).columns, (Span{0, 384}));
}

// The sum of a node as text, by the definition.
std::string Written(int slices, int level, int index) {
  const auto bound = [&](int k) { return static_cast<int>(std::floor(slices * k / std::pow(2.0, level) + 0.5)); };
  const int begin = bound(index), end = bound(index + 1);
  if (begin == end) return "";
  if (end - begin == 1) return std::to_string(begin);
  const std::string left = Written(slices, level + 1, 2 * index), right = Written(slices, level + 1, 2 * index + 1);
  return left.empty() || right.empty() ? left + right : "(" + left + "+" + right + ")";
}

// What SliceSums does with a node's slices.
std::string Stacked(int slices, Span node) {
  std::vector<std::string> stack(16);
  std::string sum;
  const std::vector<StackStep> steps = StackStepsOf(slices, node);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    sum = std::to_string(node.begin + static_cast<int>(i));
    int depth = steps[i].depth;
    for (int merge = 0; merge < steps[i].merges; ++merge) sum = "(" + stack[static_cast<std::size_t>(--depth)] + "+" + sum + ")";
    stack[static_cast<std::size_t>(depth)] = sum;
  }
  return sum;
}

// Another order of the sums would be other bits on another mesh.
TEST(SliceTree, EveryDivisionGivesTheSameSum) {
  for (const int slices : {1, 2, 3, 9, 24, 32}) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      std::vector<Span> nodes;
      const std::vector<double> even(static_cast<std::size_t>(ranks), 1.0);
      for (const Span owned : Proportional(slices, even)) {
        for (const Span node : OwnedNodes(slices, owned)) nodes.push_back(node);
      }
      std::map<int, std::string> sums;
      for (std::size_t i = 0; i < nodes.size(); ++i) sums[static_cast<int>(i)] = Stacked(slices, nodes[i]);
      for (const Merge merge : MergesOf(slices, nodes)) sums[merge.into] = "(" + sums[merge.into] + "+" + sums[merge.from] + ")";
      EXPECT_EQ(sums[0], Written(slices, 0, 0)) << slices << " slices on " << ranks << " ranks";
      if (ranks == 2 || ranks == 4 || ranks == 8) {
        EXPECT_LE(nodes.size(), static_cast<std::size_t>(ranks)) << "more to send than needed";
      }
    }
  }
}

}  // namespace
}  // namespace skein::model
