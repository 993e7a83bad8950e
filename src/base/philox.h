// SPDX-License-Identifier: Apache-2.0
//
// Philox4x32-10: counter-based random numbers (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). The number for a counter and a key is a pure function of both, so nothing has to be remembered
// between draws and any draw can be repeated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace skein {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

inline PhiloxKey PhiloxKeyOf(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
}

inline PhiloxCounter Philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Sixteen counters at once, {first + i, rest[0], rest[1], rest[2]}: out[4 * i + j] is number j of counter first + i. The
// same numbers as Philox gives; loops of a fixed length, so that compilers make vector code of them.
inline void PhiloxSixteen(std::uint32_t first, std::array<std::uint32_t, 3> rest, PhiloxKey key,
                          std::array<std::uint32_t, 64>& out) {
  constexpr int kCount = 16;
  std::uint32_t c0[kCount], c1[kCount], c2[kCount], c3[kCount];
  for (std::uint32_t i = 0; i < kCount; ++i) {
    c0[i] = first + i;
    c1[i] = rest[0];
    c2[i] = rest[1];
    c3[i] = rest[2];
  }
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kCount; ++i) {
      const std::uint64_t product0 = std::uint64_t{0xD2511F53} * c0[i];
      const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * c2[i];
      c0[i] = static_cast<std::uint32_t>(product1 >> 32) ^ c1[i] ^ key[0];
      c1[i] = static_cast<std::uint32_t>(product1);
      c2[i] = static_cast<std::uint32_t>(product0 >> 32) ^ c3[i] ^ key[1];
      c3[i] = static_cast<std::uint32_t>(product0);
    }
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    out[4 * i] = c0[i];
    out[4 * i + 1] = c1[i];
    out[4 * i + 2] = c2[i];
    out[4 * i + 3] = c3[i];
  }
}

}  // namespace skein
