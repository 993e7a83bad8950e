// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on sizes that come from outside (a file, a request). Nothing is allocated or read from a size that did
// not go through here: a sum or product that does not fit 64 bits is an absent value, never a wrapped one.
#pragma once

#include <cstdint>
#include <optional>

namespace skein {

inline std::optional<std::uint64_t> CheckedAdd(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<std::uint64_t> CheckedMultiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// `value` rounded up to a multiple of `alignment`. Requires: alignment > 0.
inline std::optional<std::uint64_t> CheckedAlign(std::uint64_t value, std::uint64_t alignment) {
  const std::uint64_t rest = value % alignment;
  return rest == 0 ? std::optional(value) : CheckedAdd(value, alignment - rest);
}

}  // namespace skein
