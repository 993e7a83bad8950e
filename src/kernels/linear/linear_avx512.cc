// SPDX-License-Identifier: Apache-2.0
//
// exact, bf16p and bf16t by 512-bit FMAs: linear_chain_impl.h with this vector type.
#include <immintrin.h>

#include "kernels/linear/linear_chain_impl.h"

namespace skein::kernels {
namespace {

struct Vector512 {
  using F = __m512;
  using I = __m512i;
  static constexpr int kLanes = 16;
  static constexpr int kRows = 8;
  static constexpr int kRowsTwo = 4;

  static F LoadF(const float* p) { return _mm512_loadu_ps(p); }
  static void StoreF(float* p, F v) { _mm512_storeu_ps(p, v); }
  static F Broadcast(const float* p) { return _mm512_set1_ps(*p); }
  static F Step(F acc, F w, F x) { return _mm512_fmadd_ps(w, x, acc); }
  static F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F Add(F a, F b) { return _mm512_add_ps(a, b); }
  static F Sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F Zero() { return _mm512_setzero_ps(); }
  static I LoadI(const void* p) { return _mm512_loadu_si512(p); }
  static I SetI(int value) { return _mm512_set1_epi32(value); }
  template <int n>
  static I ShiftRight(I v) { return _mm512_srli_epi32(v, n); }
  template <int n>
  static I ShiftRightSigned(I v) { return _mm512_srai_epi32(v, n); }
  template <int n>
  static I ShiftLeft(I v) { return _mm512_slli_epi32(v, n); }
  static I And(I a, I b) { return _mm512_and_si512(a, b); }
  static I Or(I a, I b) { return _mm512_or_si512(a, b); }
  static I AddI(I a, I b) { return _mm512_add_epi32(a, b); }
  static I SubI(I a, I b) { return _mm512_sub_epi32(a, b); }
  static F ToFloat(I v) { return _mm512_cvtepi32_ps(v); }
  static I Bits(F v) { return _mm512_castps_si512(v); }
  static F FromBits(I v) { return _mm512_castsi512_ps(v); }
  static F HalvesToFloat(const std::uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F Bf16ToFloat(const std::uint16_t* p) {
    return FromBits(ShiftLeft<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))));
  }
  static F SwappedBf16ToFloat(const std::uint16_t* p) {
    const I pairs = _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return FromBits(Or(_mm512_slli_epi64(pairs, 48), And(pairs, _mm512_set1_epi64(0xffff0000))));
  }
  static I HalfBits(F v) { return _mm512_cvtepi16_epi32(_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)); }
  // `sum`, moved towards `error` by its last bit where that bit is even and the error is not zero.
  static F MakeOdd(F sum, F error) {
    const I bits = Bits(sum);
    const __mmask16 inexact = _mm512_cmp_ps_mask(error, Zero(), _CMP_NEQ_OQ);
    const __mmask16 even = _mm512_testn_epi32_mask(bits, SetI(1));
    // +1 when sum and error have the same sign, else -1.
    const I step = Or(ShiftRightSigned<31>(_mm512_xor_si512(bits, Bits(error))), SetI(1));
    return FromBits(_mm512_mask_add_epi32(bits, inexact & even, bits, step));
  }
};

}  // namespace

template <WeightFormat format, Arithmetic arithmetic>
void LinearAvx512(const LinearTask& task) {
  RunChains<Vector512, FmaSource<Vector512, format, arithmetic>>(task);
}

#define SKEIN_INSTANTIATE(arithmetic)                                         \
  template void LinearAvx512<WeightFormat::kW4, arithmetic>(const LinearTask&);    \
  template void LinearAvx512<WeightFormat::kW4Min, arithmetic>(const LinearTask&); \
  template void LinearAvx512<WeightFormat::kW8, arithmetic>(const LinearTask&);    \
  template void LinearAvx512<WeightFormat::kBf16, arithmetic>(const LinearTask&);
SKEIN_INSTANTIATE(Arithmetic::kExact)
SKEIN_INSTANTIATE(Arithmetic::kBf16P)
SKEIN_INSTANTIATE(Arithmetic::kBf16T)
template void LinearAvx512<WeightFormat::kF32, Arithmetic::kExact>(const LinearTask&);
#undef SKEIN_INSTANTIATE

}  // namespace skein::kernels
