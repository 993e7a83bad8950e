// SPDX-License-Identifier: Apache-2.0
#include "model/share.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "kernels/linear/cells.h"

namespace skein::model {
namespace {

using formats::ModelConfig;

constexpr int kVocabularyUnit = 32;  // columns of a panel
constexpr double kGeneratedShare = 0.2;

int Pieces(int count, int unit) { return (count + unit - 1) / unit; }

Span Scaled(Span pieces, int unit, int count) { return {std::min(pieces.begin * unit, count), std::min(pieces.end * unit, count)}; }

// Of a stage's ranks.
std::vector<double> Speeds(const ShareRequest& request, int stage) {
  if (request.speeds.empty()) return std::vector<double>(static_cast<std::size_t>(request.shape.tensor), 1.0);
  const auto first = request.speeds.begin() + stage * request.shape.tensor;
  return {first, first + request.shape.tensor};
}

// Of a stage; a step of its ranks ends together.
double SpeedOfStage(const ShareRequest& request, int stage) {
  const std::vector<double> speeds = Speeds(request, stage);
  return std::accumulate(speeds.begin(), speeds.end(), 0.0);
}

std::vector<Span> Shares(int count, int unit, std::span<const double> speeds) {
  std::vector<Span> shares = Proportional(Pieces(count, unit), speeds);
  for (Span& share : shares) share = Scaled(share, unit, count);
  return shares;
}

// Consecutive layers, so that the slowest stage is as fast as can be; the last stage has the head too. Every stage has a layer where
// there are enough.
Span Layers(const ModelConfig& config, const ShareRequest& request) {
  const int stages = request.shape.pipe;
  const double head = request.head_layers > 0 ? request.head_layers : HeadCost(config);
  double all = 0, before = 0;
  for (int stage = 0; stage < stages; ++stage) all += SpeedOfStage(request, stage);
  int begin = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const int left = stages - stage - 1;
    before += SpeedOfStage(request, stage);
    int end = stage + 1 == stages ? config.layers : static_cast<int>(std::lround((config.layers + head) * before / all));
    end = std::clamp(std::min(end, config.layers - left), std::min(begin + 1, config.layers), config.layers);
    if (stage == request.at.pipe) return {begin, end};
    begin = end;
  }
  return {};
}

}  // namespace

std::vector<Span> Proportional(int count, std::span<const double> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<Span> spans;
  double before = 0;
  int begin = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    before += weights[i];
    const int end = i + 1 == weights.size() ? count : static_cast<int>(std::lround(count * before / total));
    spans.push_back({begin, end});
    begin = end;
  }
  return spans;
}

double HeadCost(const ModelConfig& config) {
  const double attention = static_cast<double>(config.hidden) * config.head_dim * (2 * config.heads + 2 * config.kv_heads);
  const double layer = attention + 3.0 * config.hidden * config.feed_forward;
  return kGeneratedShare * config.vocabulary * config.hidden / layer;
}

Share WholeShare(const ModelConfig& config, bool by_slice) { return ShareOf(config, {.by_slice = by_slice}); }

Share ShareOf(const ModelConfig& config, const ShareRequest& request) {
  const auto rank = static_cast<std::size_t>(request.at.tensor);
  SKEIN_CHECK(request.speeds.empty() || request.speeds.size() == static_cast<std::size_t>(request.shape.pipe * request.shape.tensor));
  const std::vector<double> speeds = Speeds(request, request.at.pipe);
  SKEIN_CHECK(rank < speeds.size());
  const int group = config.heads / config.kv_heads;
  const int word_unit = config.vocabulary >= 2 * kVocabularyUnit * request.shape.tensor ? kVocabularyUnit : 1;
  Share share;
  share.all_heads = Proportional(config.heads, speeds);
  share.all_columns = Shares(config.feed_forward, kernels::FeedForwardSliceWidth(config.feed_forward), speeds);
  share.all_vocabulary = Shares(config.vocabulary, word_unit, speeds);
  share.tensor_rank = request.at.tensor;
  share.layers = Layers(config, request);
  share.heads = share.all_heads[rank];
  if (!share.heads.empty()) share.kv_heads = {share.heads.begin / group, (share.heads.end - 1) / group + 1};
  share.columns = share.all_columns[rank];
  share.vocabulary = share.all_vocabulary[rank];
  share.embeds = request.at.pipe == 0;
  share.has_head = request.at.pipe == request.shape.pipe - 1;
  share.by_slice = request.by_slice;
  return share;
}

int Share::FirstQuery(const ModelConfig& config, int kv_head) const {
  const int group = config.heads / config.kv_heads;
  return std::clamp((kv_heads.begin + kv_head) * group, heads.begin, heads.end) - heads.begin;
}

ModelConfig LocalConfig(const ModelConfig& config, const Share& share) {
  ModelConfig local = config;
  local.layers = share.layers.size();
  local.heads = share.heads.size();
  local.kv_heads = share.kv_heads.size();
  local.feed_forward = share.columns.size();
  local.vocabulary = share.vocabulary.size();
  return local;
}

}  // namespace skein::model
