// SPDX-License-Identifier: Apache-2.0
//
// PieceIndex finds the id of a piece by its bytes. It keeps hashes and ids only; the bytes stay with the owner, who
// passes a function that gives the bytes of an id. One flat table, so that a vocabulary of 256,000 pieces is indexed
// in a few milliseconds. Immutable once built: any number of threads may look up.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace skein::formats {

// A quick mixing hash, eight bytes at a time; not for anything that an attacker must not foresee.
inline std::uint64_t HashBytes(std::string_view bytes) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15ULL;
  std::uint64_t hash = bytes.size() * kOdd;
  const char* next = bytes.data();
  std::size_t rest = bytes.size();
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * kOdd;
    hash ^= hash >> 29;
  };
  for (; rest >= 8; rest -= 8, next += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, next, 8);
    mix(word);
  }
  if (rest > 0) {
    std::uint64_t word = 0;
    std::memcpy(&word, next, rest);
    mix(word);
  }
  hash *= 0xD6E8FEB86659FD93ULL;
  return hash ^ (hash >> 32);
}

class PieceIndex {
 public:
  // A table for up to `piece_count` pieces.
  explicit PieceIndex(std::size_t piece_count = 0) : slots_(std::bit_ceil(piece_count * 2 + 2)) {}

  // The id that has this piece, or -1. `piece_of(id)` gives the bytes of an id that was inserted.
  template <typename PieceOf>
  TokenId Find(std::string_view piece, const PieceOf& piece_of) const {
    const std::uint64_t hash = HashBytes(piece);
    for (std::size_t place = hash & (slots_.size() - 1);; place = (place + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[place];
      if (slot.id < 0) return -1;
      if (slot.tag == Tag(hash) && piece_of(slot.id) == piece) return slot.id;
    }
  }

  // False when a piece of the same bytes is there already (which stays). Requires: room for one more.
  template <typename PieceOf>
  bool Insert(std::string_view piece, TokenId id, const PieceOf& piece_of) {
    const std::uint64_t hash = HashBytes(piece);
    for (std::size_t place = hash & (slots_.size() - 1);; place = (place + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[place];
      if (slot.id < 0) {
        slot = {Tag(hash), id};
        return true;
      }
      if (slot.tag == Tag(hash) && piece_of(slot.id) == piece) return false;
    }
  }

 private:
  struct Slot {
    std::uint32_t tag = 0;
    TokenId id = -1;
  };

  static std::uint32_t Tag(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

  std::vector<Slot> slots_;  // a power of two; at most half full
};

}  // namespace skein::formats
