// SPDX-License-Identifier: Apache-2.0
//
// V16: 16 lanes of fp32 with one meaning on AVX-512 (one register), AVX2 with FMA (two) and plain C++ (an array), so
// that a row kernel is written once and compiled per path. Every operation is exact or rounded once per lane; sums
// across lanes go by one tree (distance 8, 4, 2, 1).
//
// Which form a unit gets follows from its compiler flags. The forms live in different inline namespaces and are all
// forced inline: units with different instruction sets share no symbol. NaN in Min and Max: the second operand wins.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define SKEIN_V16_AVX512 1
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__)
#define SKEIN_V16_AVX2 1
#include <immintrin.h>
#else
#include <bit>
#include <cmath>
#endif

#include "kernels/simd/math_constants.h"

#define SKEIN_V16_INLINE [[gnu::always_inline]] static inline

namespace skein::kernels::simd {

#if defined(SKEIN_V16_AVX512)
#include "kernels/simd/v16_avx512.inc"
#elif defined(SKEIN_V16_AVX2)
#include "kernels/simd/v16_avx2.inc"
#else
#include "kernels/simd/v16_plain.inc"
#endif

SKEIN_V16_INLINE V16 Zero() { return Set(0.0f); }

// exp per lane; math_constants.h has the range. NaN stays NaN.
SKEIN_V16_INLINE V16 Exp(V16 x) {
  using namespace math;
  const V16 clamped = Min(Set(kExpHighest), x);
  const V16 shifted = Fma(clamped, Set(kLog2E), Set(kRoundingMagic));
  const V16 n = Sub(shifted, Set(kRoundingMagic));
  const V16 r = Fma(n, Set(-kLn2Low), Fma(n, Set(-kLn2High), clamped));
  V16 p = Fma(Set(kE6), r, Set(kE5));
  p = Fma(p, r, Set(kE4));
  p = Fma(p, r, Set(kE3));
  p = Fma(p, r, Set(kE2));
  p = Add(Fma(p, Mul(r, r), r), Set(1.0f));
  return ZeroWhereLess(x, Set(kExpLowest), AddBits(p, ShiftLeftBits<23>(shifted)));
}

// 2^x for x <= 0 (math_constants.h), by the longer or the shorter polynomial; at least 2^-126. NaN stays NaN.
template <bool kFine>
SKEIN_V16_INLINE V16 Exp2OfNegative(V16 x) {
  using namespace math;
  const V16 clamped = Max(Set(kExp2Lowest), x);
  const V16 shifted = Add(clamped, Set(kRoundingMagic));
  const V16 f = BeyondNearest(clamped);
  V16 p;
  if constexpr (kFine) {
    p = Fma(Set(kExp2Fine[5]), f, Set(kExp2Fine[4]));
    p = Fma(p, f, Set(kExp2Fine[3]));
    p = Fma(p, f, Set(kExp2Fine[2]));
    p = Fma(p, f, Set(kExp2Fine[1]));
    p = Fma(p, f, Set(kExp2Fine[0]));
  } else {
    p = Fma(Set(kExp2Coarse[3]), f, Set(kExp2Coarse[2]));
    p = Fma(p, f, Set(kExp2Coarse[1]));
    p = Fma(p, f, Set(kExp2Coarse[0]));
  }
  p = Fma(p, f, Set(1.0f));
  return AddBits(p, ShiftLeftBits<23>(shifted));
}

}  // namespace skein::kernels::simd
