// SPDX-License-Identifier: Apache-2.0
//
// Scalar conversions of 16-bit floating point numbers by integer arithmetic: the same bits on every processor and
// whatever the flush-to-zero mode. Used by packing, by the reference kernels and by tests; fast paths have instructions.
#pragma once

#include <bit>
#include <cstdint>

namespace skein::kernels {

inline float HalfToFloat(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fU;
  std::uint32_t mantissa = half & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  const int shift = std::countl_zero(mantissa) - 21;  // brings the leading one to bit 10
  mantissa = (mantissa << shift) & 0x3ffU;
  return std::bit_cast<float>(sign | (static_cast<std::uint32_t>(113 - shift) << 23) | (mantissa << 13));
}

// Rounds to nearest, ties to even, once.
inline std::uint16_t HalfFromDouble(double value) {
  std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 48) & 0x8000U);
  bits &= 0x7fffffffffffffffULL;
  if (bits > 0x7ff0000000000000ULL) return sign | 0x7e00U;
  if (bits >= std::bit_cast<std::uint64_t>(65520.0)) return sign | 0x7c00U;
  const int exponent = static_cast<int>(bits >> 52) - 1023;
  if (exponent < -25) return sign;
  const std::uint64_t mantissa = (bits & 0xfffffffffffffULL) | (1ULL << 52);
  const int shift = exponent >= -14 ? 42 : 42 - 14 - exponent;
  const std::uint64_t rest = mantissa & ((1ULL << shift) - 1);
  const std::uint64_t tie = 1ULL << (shift - 1);
  std::uint64_t rounded = mantissa >> shift;
  if (rest > tie || (rest == tie && (rounded & 1U) != 0)) ++rounded;
  if (exponent >= -14) rounded += static_cast<std::uint64_t>(exponent + 14) << 10;
  return static_cast<std::uint16_t>(sign | rounded);
}

inline float BfloatToFloat(std::uint16_t bfloat) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bfloat) << 16);
}

// Rounds to nearest, ties to even; NaN becomes a quiet NaN.
inline std::uint16_t BfloatFromFloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace skein::kernels
