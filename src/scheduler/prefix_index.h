// SPDX-License-Identifier: Apache-2.0
//
// PrefixIndex knows which blocks hold which tokens, so that a sequence that begins like an earlier one starts where that
// one's full blocks end. A block's key is a keyed hash of its parent's key and its own tokens; a hit is believed only
// after root, parent and stored token ids were compared, so a collision can never hand out another prompt's keys.
//
// Everything besides tokens that KV depends on, and whoever may share it, is in the root: model, arithmetic and KV type
// (the fingerprint), tenant, salt, adapter. Requests with another root never meet.
//
// The index names blocks; BlockPool counts their holders and says which entry goes when blocks run out.
//
// Owned and called by the engine thread only. Memory is taken at the start: nothing here allocates later.
//
// Invariants: (1) a block has at most one entry, and no two entries are equal; (2) the parent of an entry has an entry:
// parents are removed after their children, so the id of a parent always means what it meant when the child was entered.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "scheduler/keyed_hash.h"

namespace skein::scheduler {

struct PrefixRoot {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const PrefixRoot&, const PrefixRoot&) = default;
};

// Where a block stands: under which root, after which block (none: it is the first), with which chained hash.
struct PrefixPlace {
  PrefixRoot root;
  std::optional<BlockId> parent;
  std::uint64_t hash = 0;
};

class PrefixIndex {
 public:
  // `fingerprint`: whatever names the model, its arithmetic and the type of its KV. Requires: both counts are positive.
  PrefixIndex(std::uint32_t block_count, std::int32_t block_tokens, HashSecret secret, std::string fingerprint);

  PrefixRoot RootOf(std::string_view tenant, std::string_view salt, std::int32_t adapter) const;
  // The chained hash of a block with `tokens` after one with hash `parent` (the first one: the root's `low`).
  std::uint64_t HashOf(std::uint64_t parent, std::span<const TokenId> tokens) const;

  // The block that holds just these tokens at this place. Requires: `tokens` fill a block.
  std::optional<BlockId> Find(const PrefixPlace& place, std::span<const TokenId> tokens) const;
  // Requires: the block has no entry, Find finds nothing, the parent has an entry.
  void Insert(BlockId block, const PrefixPlace& place, std::span<const TokenId> tokens);
  // Requires: the block has an entry, and no entry has it as its parent.
  void Remove(BlockId block);

  bool Contains(BlockId block) const { return entries_[block.value].is_used; }
  std::uint32_t entry_count() const { return entry_count_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Entry {
    PrefixRoot root;
    std::uint64_t hash = 0;
    std::uint32_t parent = kNone;
    std::uint32_t next = kNone;      // in its bucket
    std::uint32_t children = 0;
    bool is_used = false;
  };

  std::uint32_t& BucketOf(std::uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  std::span<TokenId> TokensOf(std::uint32_t block);
  std::span<const TokenId> TokensOf(std::uint32_t block) const;

  const std::size_t block_tokens_;
  const HashSecret secret_;
  const std::string fingerprint_;
  std::uint32_t entry_count_ = 0;
  std::vector<Entry> entries_;           // [blocks]
  std::vector<TokenId> tokens_;          // [blocks, block_tokens]
  std::vector<std::uint32_t> buckets_;   // a power of two; first block of each, or kNone
};

}  // namespace skein::scheduler
