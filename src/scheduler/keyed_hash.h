// SPDX-License-Identifier: Apache-2.0
//
// KeyedHash: SipHash-2-4 (Aumasson and Bernstein, 2012), 64 bits under a secret of 128. Whoever does not know the secret
// cannot make inputs that fall together, so a hostile prompt cannot slow the prefix index down or guess its keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace skein::scheduler {

struct HashSecret {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const HashSecret&, const HashSecret&) = default;
};

std::uint64_t KeyedHash(HashSecret secret, std::span<const std::byte> bytes);

}  // namespace skein::scheduler
