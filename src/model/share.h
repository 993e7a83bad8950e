// SPDX-License-Identifier: Apache-2.0
//
// Share: what one rank of a mesh has of a model (architecture.md §4 and §5). The pipe axis cuts the layers; the tensor axis cuts
// query heads, slices of the feed-forward's columns and rows of the vocabulary. Any number of ranks has shares: uneven ones, and none of
// something where there are more ranks than pieces. A KV head is on every rank that has one of its query heads.
//
// Pure values.
#pragma once

#include <span>
#include <vector>

#include "comm/mesh.h"
#include "formats/model_config.h"

namespace skein::model {

struct Span {
  int begin = 0, end = 0;
  int size() const { return end - begin; }
  bool empty() const { return begin >= end; }
  friend bool operator==(const Span&, const Span&) = default;
};

struct Share {
  Span layers;
  Span heads;       // of queries
  Span kv_heads;    // that these read
  Span columns;     // of the feed-forward
  Span vocabulary;  // rows of the embedding and of the head
  bool embeds = true;      // the pipe's first stage
  bool has_head = true;    // its last
  // Of all ranks of the tensor axis, this one being `tensor_rank`.
  std::vector<Span> all_heads, all_columns, all_vocabulary;
  int tensor_rank = 0;
  // Layout-deterministic mode: sums over heads and over the feed-forward's slices are formed by one binary tree, the same on every mesh.
  bool by_slice = false;

  // The first query head of a KV head of this share, counted from heads.begin; `kv_head` counts from kv_heads.begin. (kv_heads.size() is
  // the end of the last one.)
  int FirstQuery(const formats::ModelConfig& config, int kv_head) const;
};

struct ShareRequest {
  comm::Places shape{1, 1, 1, 1};  // of the mesh
  comm::Places at = {};            // this rank
  bool by_slice = false;
  // How fast each rank of a replica is, by rank (stages one after the other); empty: all the same. Shares of the tensor axis follow the ranks of a
  // stage, layers what a stage's ranks are together.
  std::vector<double> speeds = {};
  // The cost of the head, in layers; 0: HeadCost.
  double head_layers = 0;
};

Share WholeShare(const formats::ModelConfig& config, bool by_slice = false);
Share ShareOf(const formats::ModelConfig& config, const ShareRequest& request);

// The head's multiplications, in those of a layer, for a load in which one token of five is generated: of the others no
// logits are wanted.
double HeadCost(const formats::ModelConfig& config);

// The shape of the model that a share makes: counts of layers, heads, columns and vocabulary are its own.
formats::ModelConfig LocalConfig(const formats::ModelConfig& config, const Share& share);

// `count` pieces over weights.size() owners, consecutive, in proportion.
std::vector<Span> Proportional(int count, std::span<const double> weights);

}  // namespace skein::model
