// SPDX-License-Identifier: Apache-2.0
//
// BatchLayout cuts the rows of a batch into what workers take at a time in the attention phases:
//   quarter  tokens of a row whose KV places lie in one quarter (16 places) of a frame: they are stored by one worker,
//            since the first place of a quarter clears it
//   chunk    consecutive tokens of a row that attend together
// and, when there are few chunks and many keys, each chunk's keys into splits of 256 that workers compute apart.
//
// Thread rule: built before the parallel region, read inside. Memory is taken when it is made.
#pragma once

#include <cstdint>
#include <vector>

#include "model/decoder.h"

namespace skein::model {

struct TokenRange {
  int row = 0;
  int first_token = 0;  // in the batch
  int count = 0;
  int first_position = 0;
};

struct Chunk : TokenRange {
  int splits = 0;                 // of the keys that its last token sees
  int first_item = 0;             // of its (KV head, split) items among those of all chunks
  std::int64_t partials = 0;      // floats in front of its partial results
};

class BatchLayout {
 public:
  BatchLayout() = default;
  // `chunk_tokens` per chunk; a partial result of one token and KV head has `partial_floats` floats, and there is room
  // for `partial_capacity` floats.
  BatchLayout(int tokens_max, int kv_heads, int chunk_tokens, std::int64_t partial_floats, std::int64_t partial_capacity);

  void Build(const Batch& batch, int workers);

  const std::vector<TokenRange>& quarters() const { return quarters_; }
  // Chunks of a row from its end to its beginning: those with most keys first.
  const std::vector<Chunk>& chunks() const { return chunks_; }
  bool split() const { return split_; }
  int split_items() const { return split_items_; }
  // The chunk of an item of 0 … split_items().
  const Chunk& ChunkOfItem(int item) const;
  int last_position() const { return last_position_; }

 private:
  void AddRow(int index, const BatchRow& row);

  int kv_heads_ = 1;
  int chunk_tokens_ = 1;
  std::int64_t partial_floats_ = 0;
  std::int64_t partial_capacity_ = 0;
  std::vector<TokenRange> quarters_;
  std::vector<Chunk> chunks_;
  bool split_ = false;
  int split_items_ = 0;
  int last_position_ = 0;
};

}  // namespace skein::model
