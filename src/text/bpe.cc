// SPDX-License-Identifier: Apache-2.0
//
// Two ways to the same answer: short words search all pairs for the lowest rank each time, long ones keep the pairs in
// a heap and the symbols in a linked list. Heap entries are never removed early; one that no longer fits is skipped.
#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

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

void Bpe::ApplyLong(std::span<const TokenId> symbols, Scratch& scratch, std::vector<TokenId>& out) const {
  const std::uint32_t count = static_cast<std::uint32_t>(symbols.size());
  auto& [next, previous, rank, ids, results, heap] = scratch;
  ids.assign(symbols.begin(), symbols.end());
  next.resize(count);
  previous.resize(count);
  rank.assign(count, kNoMerge);  // of the pair that begins here; kNoMerge also where a symbol was merged away
  results.resize(count);
  heap.clear();
  const auto key = [&](std::uint32_t place) { return (static_cast<std::uint64_t>(rank[place]) << 32) | place; };
  const auto look = [&](std::uint32_t place) {
    const Found found = next[place] < count ? Find(ids[place], ids[next[place]]) : Found{};
    rank[place] = found.rank;
    results[place] = found.result;
    return found.rank != kNoMerge;
  };
  for (std::uint32_t place = 0; place < count; ++place) {
    next[place] = place + 1;
    previous[place] = place - 1;  // of the first: wraps to past the end
  }
  for (std::uint32_t place = 0; place < count; ++place) {
    if (look(place)) heap.push_back(key(place));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const std::uint32_t place = static_cast<std::uint32_t>(heap.back());
    const bool current = heap.back() == key(place);
    heap.pop_back();
    if (!current) continue;
    const std::uint32_t right = next[place];
    ids[place] = results[place];
    rank[right] = kNoMerge;
    next[place] = next[right];
    if (next[place] < count) previous[next[place]] = place;
    for (const std::uint32_t changed : {previous[place], place}) {
      if (changed < count && look(changed)) {
        heap.push_back(key(changed));
        std::push_heap(heap.begin(), heap.end(), std::greater<>());
      }
    }
  }
  for (std::uint32_t place = 0; place < count; place = next[place]) out.push_back(ids[place]);
}

}  // namespace skein::text
