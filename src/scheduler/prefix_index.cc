// SPDX-License-Identifier: Apache-2.0
//
// A hash table whose entries are the pool's blocks: entry i speaks of block i, buckets are chains of entries.
#include "scheduler/prefix_index.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace skein::scheduler {
namespace {

void AppendBytes(std::vector<std::byte>& out, const void* data, std::size_t size) {
  const auto* first = static_cast<const std::byte*>(data);
  out.insert(out.end(), first, first + size);
}

// With its length in front, so that ("ab", "c") and ("a", "bc") differ.
void AppendText(std::vector<std::byte>& out, std::string_view text) {
  const std::uint64_t size = text.size();
  AppendBytes(out, &size, sizeof(size));
  AppendBytes(out, text.data(), text.size());
}

}  // namespace

PrefixIndex::PrefixIndex(std::uint32_t block_count, std::int32_t block_tokens, HashSecret secret, std::string fingerprint)
    : block_tokens_(static_cast<std::size_t>(block_tokens)),
      secret_(secret),
      fingerprint_(std::move(fingerprint)),
      entries_(block_count),
      tokens_(block_count * block_tokens_),
      buckets_(std::bit_ceil(std::size_t{block_count}), kNone) {
  SKEIN_CHECK(block_count > 0);
  SKEIN_CHECK(block_tokens > 0);
}

PrefixRoot PrefixIndex::RootOf(std::string_view tenant, std::string_view salt, std::int32_t adapter) const {
  std::vector<std::byte> bytes;
  AppendText(bytes, fingerprint_);
  AppendText(bytes, tenant);
  AppendText(bytes, salt);
  AppendBytes(bytes, &adapter, sizeof(adapter));
  // Roots are compared by these bits alone, so there are 128 of them, under two keys.
  return {KeyedHash(secret_, bytes), KeyedHash({~secret_.low, ~secret_.high}, bytes)};
}

std::uint64_t PrefixIndex::HashOf(std::uint64_t parent, std::span<const TokenId> tokens) const {
  // Chained in pieces of fixed size, so that no memory is needed for a block's bytes.
  std::uint64_t hash = parent;
  while (!tokens.empty()) {
    std::byte piece[8 + 16 * sizeof(TokenId)];
    const std::size_t count = std::min<std::size_t>(tokens.size(), 16);
    std::memcpy(piece, &hash, 8);
    std::memcpy(piece + 8, tokens.data(), count * sizeof(TokenId));
    hash = KeyedHash(secret_, std::span(piece).first(8 + count * sizeof(TokenId)));
    tokens = tokens.subspan(count);
  }
  return hash;
}

std::span<TokenId> PrefixIndex::TokensOf(std::uint32_t block) {
  return std::span(tokens_).subspan(block * block_tokens_, block_tokens_);
}

std::span<const TokenId> PrefixIndex::TokensOf(std::uint32_t block) const {
  return std::span(tokens_).subspan(block * block_tokens_, block_tokens_);
}

std::optional<BlockId> PrefixIndex::Find(const PrefixPlace& place, std::span<const TokenId> tokens) const {
  SKEIN_CHECK(tokens.size() == block_tokens_);
  const std::uint32_t parent = place.parent ? place.parent->value : kNone;
  for (std::uint32_t block = buckets_[place.hash & (buckets_.size() - 1)]; block != kNone; block = entries_[block].next) {
    const Entry& entry = entries_[block];
    if (entry.hash != place.hash || entry.parent != parent || entry.root != place.root) continue;
    if (std::ranges::equal(TokensOf(block), tokens)) return BlockId{block};
  }
  return std::nullopt;
}

void PrefixIndex::Insert(BlockId block, const PrefixPlace& place, std::span<const TokenId> tokens) {
  SKEIN_CHECK(tokens.size() == block_tokens_);
  Entry& entry = entries_[block.value];
  SKEIN_CHECK(!entry.is_used);
  std::uint32_t& bucket = BucketOf(place.hash);
  entry = {.root = place.root, .hash = place.hash, .parent = kNone, .next = bucket, .children = 0, .is_used = true};
  if (place.parent) {
    SKEIN_CHECK(Contains(*place.parent));
    entry.parent = place.parent->value;
    ++entries_[entry.parent].children;
  }
  std::ranges::copy(tokens, TokensOf(block.value).begin());
  bucket = block.value;
  ++entry_count_;
}

void PrefixIndex::Remove(BlockId block) {
  Entry& entry = entries_[block.value];
  SKEIN_CHECK(entry.is_used);
  SKEIN_CHECK(entry.children == 0);
  if (entry.parent != kNone) --entries_[entry.parent].children;
  std::uint32_t* link = &BucketOf(entry.hash);
  while (*link != block.value) link = &entries_[*link].next;
  *link = entry.next;
  entry = {};
  --entry_count_;
}

}  // namespace skein::scheduler
