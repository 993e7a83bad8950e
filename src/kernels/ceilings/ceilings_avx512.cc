// SPDX-License-Identifier: Apache-2.0
//
// Ceilings on AVX-512 (FMA and VNNI).
#include <immintrin.h>

#include "kernels/ceilings/ceilings_paths.h"

namespace skein::kernels {
namespace {

constexpr int kChains = 16;

void Fp32(std::int64_t rounds) {
  __m512 chain[kChains];
  const __m512 a = _mm512_set4_ps(0.71f, -1.3f, 0.39f, 1.7f), b = _mm512_set4_ps(-0.33f, 0.87f, 1.1f, -0.77f);
#pragma GCC unroll 16
  for (__m512& c : chain) {
    c = a;
    __asm__ volatile("" : "+v"(c));  // equal chains would be computed once
  }
  for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) chain[c] = _mm512_fmadd_ps(a, b, chain[c]);
  }
#pragma GCC unroll 16
  for (__m512& c : chain) __asm__ volatile("" ::"v"(c));
}

void Int8(std::int64_t rounds) {
  __m512i chain[kChains];
  const __m512i a = _mm512_set4_epi32(0x1b2f3d05, 0x3e2f010d, 0x2b1f0d25, 0x0b3f1d15);
  const __m512i b = _mm512_set4_epi32(0x11e7f30d, 0x21a7c30d, 0x41d7b32d, static_cast<int>(0x91e7f34du));
#pragma GCC unroll 16
  for (__m512i& c : chain) {
    c = a;
    __asm__ volatile("" : "+v"(c));  // equal chains would be computed once
  }
  for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) chain[c] = _mm512_dpbusd_epi32(chain[c], a, b);
  }
#pragma GCC unroll 16
  for (__m512i& c : chain) __asm__ volatile("" ::"v"(c));
}

}  // namespace

ComputeCeiling CeilingAvx512Fp32() { return {"fp32", "vfmadd (512 bits)", kChains * 16 * 2, Fp32}; }
ComputeCeiling CeilingAvx512Int8() { return {"int8", "vpdpbusd (512 bits)", kChains * 64 * 2, Int8}; }

void ReadInOrderAvx512(const std::byte* memory, std::size_t bytes) {
  __m512i sum[8];
#pragma GCC unroll 8
  for (__m512i& s : sum) s = _mm512_setzero_si512();
  for (std::size_t i = 0; i < bytes; i += 512) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) sum[j] = _mm512_xor_si512(sum[j], _mm512_loadu_si512(memory + i + 64 * j));
  }
#pragma GCC unroll 8
  for (__m512i& s : sum) __asm__ volatile("" ::"v"(s));
}

}  // namespace skein::kernels
