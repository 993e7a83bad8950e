// SPDX-License-Identifier: Apache-2.0
//
// Bpe merges the symbols of one word: as long as two neighbours have a merge, the one of the lowest rank goes first,
// the leftmost of equal ones. O(n log n) for a word of any length and content.
//
// Immutable once built and shared by threads; each caller brings its own scratch memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "formats/tokenizer_data.h"

namespace skein::text {

class Bpe {
 public:
  // Memory that calls reuse; one per thread or call.
  class Scratch {
   private:
    friend class Bpe;
    // A symbol of a long word, with the pair that it makes with its right neighbour.
    struct Symbol {
      TokenId id = 0;
      std::uint32_t next = 0;
      std::uint32_t previous = 0;
      std::uint32_t rank = 0;  // of the pair; kNoMerge also when the symbol was merged away
      TokenId result = 0;      // of the pair
    };
    std::vector<Symbol> symbols;
    std::vector<std::uint64_t> sorted, buffer, heap;  // pairs: rank in the upper half, place in the lower
  };

  explicit Bpe(std::span<const formats::Merge> merges);

  // Appends the ids that `symbols` become to `out`.
  void Apply(std::span<const TokenId> symbols, Scratch& scratch, std::vector<TokenId>& out) const;

 private:
  struct Slot {
    std::uint64_t pair = kEmpty;
    std::uint32_t rank = 0;
    TokenId result = 0;
  };
  struct Found {
    std::uint32_t rank = kNoMerge;
    TokenId result = -1;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  static constexpr std::uint32_t kNoMerge = ~std::uint32_t{0};
  static constexpr std::size_t kShortWord = 32;  // symbols; below it plain search beats a heap

  static std::uint64_t Pair(TokenId left, TokenId right) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
  }
  std::size_t Home(std::uint64_t pair) const { return (pair * 0x9E3779B97F4A7C15ULL) >> shift_; }
  Found Find(TokenId left, TokenId right) const;

  static void SortByRank(std::vector<std::uint64_t>& keys, std::vector<std::uint64_t>& buffer);
  void ApplyShort(std::span<const TokenId> symbols, std::vector<TokenId>& out) const;
  void ApplyLong(std::span<const TokenId> symbols, Scratch& scratch, std::vector<TokenId>& out) const;

  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  int shift_ = 63;
};

}  // namespace skein::text
