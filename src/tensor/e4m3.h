// SPDX-License-Identifier: Apache-2.0
//
// E4M3: an 8-bit floating-point number of sign, 4 bits of exponent (bias 7) and 3 of mantissa, without infinities (OCP 8-bit
// Floating Point Specification, revision 1.0). Exponent 0 is denormal, in steps of 2^-9; the largest number is 448; only 0x7f
// and 0xff are NaN. These are the plain conversions that vector code is to equal, in integers, so that flushing denormals
// changes nothing.
#pragma once

#include <bit>
#include <cstdint>

namespace skein {

inline constexpr float kE4M3Max = 448.0f;

// The nearest number, ties to the even mantissa; what is larger than 448, infinity too, becomes 448; NaN stays NaN.
constexpr std::uint8_t E4M3FromFloat(float x) {
  constexpr std::uint32_t kMaxBits = std::bit_cast<std::uint32_t>(kE4M3Max);
  constexpr std::uint32_t kNormalBits = std::bit_cast<std::uint32_t>(0x1p-6f);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t code = 0;
  if (magnitude > 0x7f800000u) {
    code = 0x7f;
  } else if (magnitude >= kMaxBits) {
    code = 0x7e;
  } else if (magnitude >= kNormalBits) {
    code = ((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20) - (120u << 3);  // the bias of fp32 is larger by 120
  } else {
    // The number is mantissa * 2^(exponent - 150), a step is 2^-9.
    const std::uint32_t exponent = magnitude >> 23, mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const std::uint32_t shift = 141u - exponent;
    if (exponent > 0 && shift <= 24) {
      const std::uint32_t rest = mantissa & ((1u << shift) - 1u), half = 1u << (shift - 1u);
      code = mantissa >> shift;
      if (rest > half || (rest == half && (code & 1u) != 0)) ++code;
    }
  }
  return static_cast<std::uint8_t>(code | (bits >> 24 & 0x80u));
}

constexpr float FloatFromE4M3(std::uint8_t code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80u) << 24, magnitude = code & 0x7fu;
  if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (magnitude >= 8) return std::bit_cast<float>(sign | ((magnitude + (120u << 3)) << 20));
  const float value = static_cast<float>(magnitude) * 0x1p-9f;
  return sign != 0 ? -value : value;
}

}  // namespace skein
