// SPDX-License-Identifier: Apache-2.0
#include "model/batch_layout.h"

#include <algorithm>

#include "kernels/attention/attention.h"

namespace skein::model {
namespace {

constexpr int kQuarter = kernels::kBlockTokens;

}  // namespace

BatchLayout::BatchLayout(int tokens_max, int kv_heads, int chunk_tokens, std::int64_t partial_floats,
                         std::int64_t partial_capacity)
    : kv_heads_(kv_heads),
      chunk_tokens_(chunk_tokens),
      partial_floats_(partial_floats),
      partial_capacity_(partial_capacity) {
  quarters_.reserve(static_cast<std::size_t>(tokens_max));
  chunks_.reserve(static_cast<std::size_t>(tokens_max));
}

void BatchLayout::AddRow(int index, const BatchRow& row) {
  for (int at = 0; at < row.count;) {
    const int position = row.first_position + at;
    const int count = std::min(kQuarter - position % kQuarter, row.count - at);
    quarters_.push_back({index, row.first_token + at, count, position});
    at += count;
  }
  for (int end = row.count; end > 0;) {
    const int begin = (end - 1) / chunk_tokens_ * chunk_tokens_;
    Chunk chunk;
    chunk.row = index;
    chunk.first_token = row.first_token + begin;
    chunk.count = end - begin;
    chunk.first_position = row.first_position + begin;
    chunk.splits = (row.first_position + end - 1) / kernels::kSplitKeys + 1;
    chunks_.push_back(chunk);
    end = begin;
  }
  last_position_ = std::max(last_position_, row.first_position + row.count - 1);
}

void BatchLayout::Build(const Batch& batch, int workers) {
  quarters_.clear();
  chunks_.clear();
  last_position_ = 0;
  for (std::size_t i = 0; i < batch.rows.size(); ++i) AddRow(static_cast<int>(i), batch.rows[i]);

  std::int64_t floats = 0;
  split_items_ = 0;
  for (Chunk& chunk : chunks_) {
    chunk.first_item = split_items_;
    chunk.partials = floats;
    split_items_ += kv_heads_ * chunk.splits;
    floats += partial_floats_ * kv_heads_ * chunk.splits * chunk.count;
    if (floats > partial_capacity_) break;
  }
  const int items = static_cast<int>(chunks_.size()) * kv_heads_;
  split_ = workers > 1 && items < 4 * workers && split_items_ > items && floats <= partial_capacity_;
}

const Chunk& BatchLayout::ChunkOfItem(int item) const {
  std::size_t i = 0;
  while (i + 1 < chunks_.size() && chunks_[i + 1].first_item <= item) ++i;
  return chunks_[i];
}

}  // namespace skein::model
