// SPDX-License-Identifier: Apache-2.0
//
// Four words of state; each word of input goes in before two rounds and comes in again after them.
#include "scheduler/keyed_hash.h"

#include <bit>
#include <cstring>

namespace skein::scheduler {
namespace {

struct State {
  std::uint64_t a, b, c, d;

  void Round() {
    a += b;
    c += d;
    b = std::rotl(b, 13) ^ a;
    d = std::rotl(d, 16) ^ c;
    a = std::rotl(a, 32);
    c += b;
    a += d;
    b = std::rotl(b, 17) ^ c;
    d = std::rotl(d, 21) ^ a;
    c = std::rotl(c, 32);
  }
  void Take(std::uint64_t word) {
    d ^= word;
    Round();
    Round();
    a ^= word;
  }
};

}  // namespace

std::uint64_t KeyedHash(HashSecret secret, std::span<const std::byte> bytes) {
  State state{secret.low ^ 0x736F6D6570736575, secret.high ^ 0x646F72616E646F6D, secret.low ^ 0x6C7967656E657261,
              secret.high ^ 0x7465646279746573};
  std::uint64_t last = static_cast<std::uint64_t>(bytes.size()) << 56;
  while (bytes.size() >= 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    state.Take(word);
    bytes = bytes.subspan(8);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) last |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  state.Take(last);
  state.c ^= 0xFF;
  for (int i = 0; i < 4; ++i) state.Round();
  return state.a ^ state.b ^ state.c ^ state.d;
}

}  // namespace skein::scheduler
