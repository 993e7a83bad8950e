// SPDX-License-Identifier: Apache-2.0
//
// Two ways to the same answer: short words search all pairs for the lowest rank each time, long ones sort
// the pairs that are there at the beginning, keep those that come later in a heap, and the symbols in a linked list.
// Neither removes a pair early; one that no longer fits is skipped when its turn comes.
#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <utility>

namespace skein::text {

Bpe::Bpe(std::span<const formats::Merge> merges) : slots_(std::bit_ceil(merges.size() * 2 + 2)) {
  shift_ = 64 - std::countr_zero(slots_.size());
  for (const formats::Merge& merge : merges) {
    const std::uint64_t pair = Pair(merge.left, merge.right);
    std::size_t place = Home(pair);
    while (slots_[place].pair != kEmpty && slots_[place].pair != pair) place = (place + 1) & (slots_.size() - 1);
    slots_[place] = {pair, merge.rank, merge.result};  // a pair that comes twice counts as its last
  }
}

Bpe::Found Bpe::Find(TokenId left, TokenId right) const {
  const std::uint64_t pair = Pair(left, right);
  for (std::size_t place = Home(pair);; place = (place + 1) & (slots_.size() - 1)) {
    if (slots_[place].pair == pair) return {slots_[place].rank, slots_[place].result};
    if (slots_[place].pair == kEmpty) return {};
  }
}

void Bpe::Apply(std::span<const TokenId> symbols, Scratch& scratch, std::vector<TokenId>& out) const {
  if (symbols.size() <= kShortWord) {
    ApplyShort(symbols, out);
  } else {
    ApplyLong(symbols, scratch, out);
  }
}

void Bpe::ApplyShort(std::span<const TokenId> symbols, std::vector<TokenId>& out) const {
  std::array<TokenId, kShortWord> ids;
  std::array<Found, kShortWord> found;  // of symbol and its right neighbour
  std::size_t count = symbols.size();
  std::copy(symbols.begin(), symbols.end(), ids.begin());
  for (std::size_t place = 0; place + 1 < count; ++place) found[place] = Find(ids[place], ids[place + 1]);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t place = 1; place + 1 < count; ++place) {
      if (found[place].rank < found[best].rank) best = place;
    }
    if (found[best].rank == kNoMerge) break;
    ids[best] = found[best].result;
    for (std::size_t place = best + 1; place + 1 < count; ++place) {
      ids[place] = ids[place + 1];
      found[place] = found[place + 1];
    }
    --count;
    if (best > 0) found[best - 1] = Find(ids[best - 1], ids[best]);
    if (best + 1 < count) found[best] = Find(ids[best], ids[best + 1]);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
}

// Radix sort by the upper half; keys of one rank keep their order, which is that of their places.
void Bpe::SortByRank(std::vector<std::uint64_t>& keys, std::vector<std::uint64_t>& buffer) {
  constexpr int kDigitBits = 11;
  constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
  const auto digit = [](std::uint64_t key, int shift) { return (key >> shift) & (kDigits - 1); };
  std::uint64_t all_bits = 0;
  for (const std::uint64_t key : keys) all_bits |= key >> 32;
  buffer.resize(keys.size());
  for (int shift = 32; (all_bits >> (shift - 32)) != 0; shift += kDigitBits) {
    std::array<std::size_t, kDigits> starts{};
    for (const std::uint64_t key : keys) ++starts[digit(key, shift)];
    std::size_t sum = 0;
    for (std::size_t& start : starts) sum += std::exchange(start, sum);
    for (const std::uint64_t key : keys) buffer[starts[digit(key, shift)]++] = key;
    keys.swap(buffer);
    if (shift + kDigitBits >= 64) break;
  }
}

void Bpe::ApplyLong(std::span<const TokenId> word, Scratch& scratch, std::vector<TokenId>& out) const {
  const std::uint32_t count = static_cast<std::uint32_t>(word.size());
  scratch.symbols.resize(count);
  scratch.sorted.clear();
  scratch.heap.clear();
  Scratch::Symbol* const symbols = scratch.symbols.data();
  std::vector<std::uint64_t>& sorted = scratch.sorted;  // the pairs of the beginning, taken in order
  std::vector<std::uint64_t>& heap = scratch.heap;      // those that merging makes
  const auto key = [&](std::uint32_t place) { return (static_cast<std::uint64_t>(symbols[place].rank) << 32) | place; };
  const auto look = [&](std::uint32_t place) {
    Scratch::Symbol& symbol = symbols[place];
    const Found found = symbol.next < count ? Find(symbol.id, symbols[symbol.next].id) : Found{};
    symbol.rank = found.rank;
    symbol.result = found.result;
    return found.rank != kNoMerge;
  };
  for (std::uint32_t place = 0; place < count; ++place) {
    symbols[place] = {word[place], place + 1, place - 1, kNoMerge, -1};  // previous of the first wraps to past the end
  }
  for (std::uint32_t place = 0; place < count; ++place) {
    if (look(place)) sorted.push_back(key(place));
  }
  SortByRank(sorted, scratch.buffer);
  std::size_t taken = 0;
  while (taken < sorted.size() || !heap.empty()) {
    std::uint64_t lowest = 0;
    if (heap.empty() || (taken < sorted.size() && sorted[taken] < heap.front())) {
      lowest = sorted[taken++];
    } else {
      std::pop_heap(heap.begin(), heap.end(), std::greater<>());
      lowest = heap.back();
      heap.pop_back();
    }
    const std::uint32_t place = static_cast<std::uint32_t>(lowest);
    Scratch::Symbol& left = symbols[place];
    if (key(place) != lowest) continue;  // one of the two has changed since
    Scratch::Symbol& right = symbols[left.next];
    left.id = left.result;
    left.next = right.next;
    right.rank = kNoMerge;
    if (left.next < count) symbols[left.next].previous = place;
    for (const std::uint32_t changed : {left.previous, place}) {
      if (changed < count && look(changed)) {
        heap.push_back(key(changed));
        std::push_heap(heap.begin(), heap.end(), std::greater<>());
      }
    }
  }
  for (std::uint32_t place = 0; place < count; place = symbols[place].next) out.push_back(symbols[place].id);
}

}  // namespace skein::text
