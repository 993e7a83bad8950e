// SPDX-License-Identifier: Apache-2.0
//
// W8: 8 lanes of 64-bit unsigned integers beside V16, on AVX-512 (one register) and AVX2 (two): what exact sums and
// counter-based random numbers need. Included by kernels that are compiled per path; there is no plain form, since
// their `ref` is plain loops.
//
// A V16 is two W8: `Even` and `Odd` lanes in JoinHalves, `Low` (0 … 7) and `High` lanes (8 … 15) in Truncate….
#pragma once

#include "kernels/simd/v16.h"

namespace skein::kernels::simd {

#if defined(SKEIN_V16_AVX512)
inline namespace avx512 {

struct W8 {
  __m512i v;
};

SKEIN_V16_INLINE W8 SetWide(std::uint64_t x) { return {_mm512_set1_epi64(static_cast<long long>(x))}; }
SKEIN_V16_INLINE W8 LoadWide(const std::uint64_t* p) { return {_mm512_loadu_si512(p)}; }
SKEIN_V16_INLINE void StoreWide(std::uint64_t* p, W8 a) { _mm512_storeu_si512(p, a.v); }
SKEIN_V16_INLINE W8 AddWide(W8 a, W8 b) { return {_mm512_add_epi64(a.v, b.v)}; }
// The product of the low halves.
SKEIN_V16_INLINE W8 MultiplyLow(W8 a, W8 b) { return {_mm512_mul_epu32(a.v, b.v)}; }
SKEIN_V16_INLINE W8 UpperHalf(W8 a) { return {_mm512_srli_epi64(a.v, 32)}; }
SKEIN_V16_INLINE W8 Xor3(W8 a, W8 b, W8 c) { return {_mm512_ternarylogic_epi64(a.v, b.v, c.v, 0x96)}; }
// Lane 2i: the low half of even[i] as bits; lane 2i + 1: that of odd[i].
SKEIN_V16_INLINE V16 JoinHalves(W8 even, W8 odd) {
  return {_mm512_castsi512_ps(_mm512_mask_mov_epi32(even.v, 0xaaaa, _mm512_slli_epi64(odd.v, 32)))};
}
// Lanes towards zero. Requires: 0 <= a < 2^52.
SKEIN_V16_INLINE W8 TruncateLow(V16 a) { return {_mm512_cvttps_epi64(_mm512_castps512_ps256(a.v))}; }
SKEIN_V16_INLINE W8 TruncateHigh(V16 a) { return {_mm512_cvttps_epi64(_mm512_extractf32x8_ps(a.v, 1))}; }

// A V16's quarters stay where they are: lane 4q + j of the r-th result is lane 4q + r of the j-th argument.
SKEIN_V16_INLINE void TransposeQuarters(V16& a, V16& b, V16& c, V16& d) {
  const __m512 ab_low = _mm512_unpacklo_ps(a.v, b.v), ab_high = _mm512_unpackhi_ps(a.v, b.v);
  const __m512 cd_low = _mm512_unpacklo_ps(c.v, d.v), cd_high = _mm512_unpackhi_ps(c.v, d.v);
  a.v = _mm512_shuffle_ps(ab_low, cd_low, 0x44);
  b.v = _mm512_shuffle_ps(ab_low, cd_low, 0xee);
  c.v = _mm512_shuffle_ps(ab_high, cd_high, 0x44);
  d.v = _mm512_shuffle_ps(ab_high, cd_high, 0xee);
}
// Lanes as unsigned numbers, halved and rounded to fp32.
SKEIN_V16_INLINE V16 HalfOfBits(V16 a) { return {_mm512_cvtepi32_ps(_mm512_srli_epi32(_mm512_castps_si512(a.v), 1))}; }
// Lanes towards zero, as the bits of 32-bit integers. Requires: |a| < 2^31.
SKEIN_V16_INLINE V16 TruncateToBits(V16 a) { return {_mm512_castsi512_ps(_mm512_cvttps_epi32(a.v))}; }
SKEIN_V16_INLINE void StoreBits(std::int32_t* p, V16 a) { _mm512_storeu_si512(p, _mm512_castps_si512(a.v)); }
// Bit i: a[i] >= b[i].
SKEIN_V16_INLINE unsigned AtLeastLanes(V16 a, V16 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ); }

}  // namespace avx512
#elif defined(SKEIN_V16_AVX2)
inline namespace avx2 {

struct W8 {
  __m256i lo, hi;
};

SKEIN_V16_INLINE W8 SetWide(std::uint64_t x) {
  const __m256i all = _mm256_set1_epi64x(static_cast<long long>(x));
  return {all, all};
}
SKEIN_V16_INLINE W8 LoadWide(const std::uint64_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 4))};
}
SKEIN_V16_INLINE void StoreWide(std::uint64_t* p, W8 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 4), a.hi);
}
SKEIN_V16_INLINE W8 AddWide(W8 a, W8 b) { return {_mm256_add_epi64(a.lo, b.lo), _mm256_add_epi64(a.hi, b.hi)}; }
// The product of the low halves.
SKEIN_V16_INLINE W8 MultiplyLow(W8 a, W8 b) { return {_mm256_mul_epu32(a.lo, b.lo), _mm256_mul_epu32(a.hi, b.hi)}; }
SKEIN_V16_INLINE W8 UpperHalf(W8 a) { return {_mm256_srli_epi64(a.lo, 32), _mm256_srli_epi64(a.hi, 32)}; }
SKEIN_V16_INLINE W8 Xor3(W8 a, W8 b, W8 c) {
  return {_mm256_xor_si256(_mm256_xor_si256(a.lo, b.lo), c.lo), _mm256_xor_si256(_mm256_xor_si256(a.hi, b.hi), c.hi)};
}
// Lane 2i: the low half of even[i] as bits; lane 2i + 1: that of odd[i].
SKEIN_V16_INLINE V16 JoinHalves(W8 even, W8 odd) {
  return {_mm256_castsi256_ps(_mm256_blend_epi32(even.lo, _mm256_slli_epi64(odd.lo, 32), 0xaa)),
          _mm256_castsi256_ps(_mm256_blend_epi32(even.hi, _mm256_slli_epi64(odd.hi, 32), 0xaa))};
}
// Lanes towards zero. Requires: 0 <= a < 2^52. (Added to 2^52, a number's integer stands in the low bits.)
SKEIN_V16_INLINE __m256i TruncateFour(__m128 a) {
  const __m256d whole = _mm256_round_pd(_mm256_cvtps_pd(a), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  const __m256d magic = _mm256_set1_pd(0x1p52);
  return _mm256_xor_si256(_mm256_castpd_si256(_mm256_add_pd(whole, magic)), _mm256_castpd_si256(magic));
}
SKEIN_V16_INLINE W8 TruncateEight(__m256 a) {
  return {TruncateFour(_mm256_castps256_ps128(a)), TruncateFour(_mm256_extractf128_ps(a, 1))};
}
SKEIN_V16_INLINE W8 TruncateLow(V16 a) { return TruncateEight(a.lo); }
SKEIN_V16_INLINE W8 TruncateHigh(V16 a) { return TruncateEight(a.hi); }

// A V16's quarters stay where they are: lane 4q + j of the r-th result is lane 4q + r of the j-th argument.
SKEIN_V16_INLINE void TransposeQuarters(__m256& a, __m256& b, __m256& c, __m256& d) {
  const __m256 ab_low = _mm256_unpacklo_ps(a, b), ab_high = _mm256_unpackhi_ps(a, b);
  const __m256 cd_low = _mm256_unpacklo_ps(c, d), cd_high = _mm256_unpackhi_ps(c, d);
  a = _mm256_shuffle_ps(ab_low, cd_low, 0x44);
  b = _mm256_shuffle_ps(ab_low, cd_low, 0xee);
  c = _mm256_shuffle_ps(ab_high, cd_high, 0x44);
  d = _mm256_shuffle_ps(ab_high, cd_high, 0xee);
}
SKEIN_V16_INLINE void TransposeQuarters(V16& a, V16& b, V16& c, V16& d) {
  TransposeQuarters(a.lo, b.lo, c.lo, d.lo);
  TransposeQuarters(a.hi, b.hi, c.hi, d.hi);
}
// Lanes as unsigned numbers, halved and rounded to fp32.
SKEIN_V16_INLINE V16 HalfOfBits(V16 a) {
  return {_mm256_cvtepi32_ps(_mm256_srli_epi32(_mm256_castps_si256(a.lo), 1)),
          _mm256_cvtepi32_ps(_mm256_srli_epi32(_mm256_castps_si256(a.hi), 1))};
}
// Lanes towards zero, as the bits of 32-bit integers. Requires: |a| < 2^31.
SKEIN_V16_INLINE V16 TruncateToBits(V16 a) {
  return {_mm256_castsi256_ps(_mm256_cvttps_epi32(a.lo)), _mm256_castsi256_ps(_mm256_cvttps_epi32(a.hi))};
}
SKEIN_V16_INLINE void StoreBits(std::int32_t* p, V16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_castps_si256(a.lo));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), _mm256_castps_si256(a.hi));
}
// Bit i: a[i] >= b[i].
SKEIN_V16_INLINE unsigned AtLeastLanes(V16 a, V16 b) {
  const int lo = _mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_GE_OQ));
  const int hi = _mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_GE_OQ));
  return static_cast<unsigned>(lo) | (static_cast<unsigned>(hi) << 8);
}

}  // namespace avx2
#endif

SKEIN_V16_INLINE std::uint64_t SumWide(W8 a) {
  std::uint64_t lanes[8], sum = 0;
  std::memcpy(lanes, &a, sizeof lanes);
  for (const std::uint64_t lane : lanes) sum += lane;
  return sum;
}

}  // namespace skein::kernels::simd
