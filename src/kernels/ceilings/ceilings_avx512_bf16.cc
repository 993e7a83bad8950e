// SPDX-License-Identifier: Apache-2.0
//
// The ceiling of AVX512-BF16.
#include <immintrin.h>

#include "kernels/ceilings/ceilings_paths.h"

namespace skein::kernels {
namespace {

constexpr int kChains = 16;

void Bf16(std::int64_t rounds) {
  __m512 chain[kChains];
  const __m512 x = _mm512_set4_ps(0.71f, -1.3f, 0.39f, 1.7f), y = _mm512_set4_ps(-0.33f, 0.87f, 1.1f, -0.77f);
  const __m512bh a = _mm512_cvtne2ps_pbh(x, y), b = _mm512_cvtne2ps_pbh(y, x);
#pragma GCC unroll 16
  for (__m512& c : chain) {
    c = x;
    __asm__ volatile("" : "+v"(c));  // equal chains would be computed once
  }
  for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) chain[c] = _mm512_dpbf16_ps(chain[c], a, b);
  }
#pragma GCC unroll 16
  for (__m512& c : chain) __asm__ volatile("" ::"v"(c));
}

}  // namespace

ComputeCeiling CeilingAvx512Bf16() { return {"bf16", "vdpbf16ps (512 bits)", kChains * 32 * 2, Bf16}; }

}  // namespace skein::kernels
