// SPDX-License-Identifier: Apache-2.0
//
// Scalar exp, log and roundings with the bits of the vector ones. Everything has internal linkage: the file is compiled
// into units with different instruction sets, whose copies must never be exchanged by the linker.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/simd/math_constants.h"

namespace skein::kernels::math {
namespace {

// exp(x); see math_constants.h for the range. NaN stays NaN.
[[maybe_unused]] float ScalarExp(float x) {
  if (x < kExpLowest) return 0.0f;
  if (x > kExpHighest) x = kExpHighest;
  const float shifted = std::fma(x, kLog2E, kRoundingMagic);
  const float n = shifted - kRoundingMagic;
  const float r = std::fma(n, -kLn2Low, std::fma(n, -kLn2High, x));
  float p = std::fma(kE6, r, kE5);
  p = std::fma(p, r, kE4);
  p = std::fma(p, r, kE3);
  p = std::fma(p, r, kE2);
  p = std::fma(p, r * r, r) + 1.0f;
  // Multiplies by 2^n: n stands in the low bits of `shifted`, the magic's own bits leave at the top.
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + (std::bit_cast<std::uint32_t>(shifted) << 23));
}

// 2^x for x <= 0, by the longer or the shorter polynomial; at least 2^-126.
[[maybe_unused]] float ScalarExp2OfNegative(float x, bool fine) {
  if (x < kExp2Lowest) x = kExp2Lowest;
  const float shifted = x + kRoundingMagic;
  const float f = x - (shifted - kRoundingMagic);
  const float* c = fine ? kExp2Fine : kExp2Coarse;
  const int terms = fine ? 6 : 4;
  float p = c[terms - 1];
  for (int i = terms - 2; i >= 0; --i) p = std::fma(p, f, c[i]);
  p = std::fma(p, f, 1.0f);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + (std::bit_cast<std::uint32_t>(shifted) << 23));
}

// log(x): -inf at zero (denormals count as zero), NaN below.
[[maybe_unused]] float ScalarLog(float x) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7f800000u) == 0) return -HUGE_VALF;
  if (std::isnan(x)) return x;
  if (x < 0.0f) return std::bit_cast<float>(0x7fc00000u);
  if (std::isinf(x)) return x;
  // x = (1 + z) 2^e with 1 + z in [sqrt(1/2), sqrt(2)).
  bits += 0x3f800000u - 0x3f3504f3u;
  const int exponent = static_cast<int>(bits >> 23) - 127;
  const float z = std::bit_cast<float>((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float e = static_cast<float>(exponent);
  float p = kLog[8];
  for (int i = 7; i >= 0; --i) p = std::fma(p, z, kLog[i]);
  const float z2 = z * z;
  const float tail = std::fma(z2 * z, p, e * kLn2Low);
  return std::fma(e, kLn2High, z + std::fma(-0.5f, z2, tail));
}

// Nearest bf16, ties to even; denormals become zero, NaN stays NaN: what vcvtneps2bf16 does.
[[maybe_unused]] std::uint16_t ScalarBf16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  if (magnitude < 0x00800000u) return static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

[[maybe_unused]] float ScalarFromBf16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

}  // namespace
}  // namespace skein::kernels::math
