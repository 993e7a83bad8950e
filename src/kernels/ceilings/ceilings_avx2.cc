// SPDX-License-Identifier: Apache-2.0
//
// Ceilings on AVX2 with FMA. Twelve chains: enough to hide an FMA's latency, and few enough for 16 registers.
// (Loops over chains are unrolled: g++ 12 keeps an array of vectors in memory otherwise.)
#include <immintrin.h>

#include "kernels/ceilings/ceilings_paths.h"

namespace skein::kernels {
namespace {

constexpr int kChains = 12;

void Fp32(std::int64_t rounds) {
  __m256 chain[kChains];
  const __m256 a = _mm256_setr_ps(0.71f, -1.3f, 0.39f, 1.7f, -0.91f, 0.13f, -2.1f, 0.57f);
  const __m256 b = _mm256_setr_ps(-0.33f, 0.87f, 1.1f, -0.77f, 0.21f, 1.9f, -0.63f, 1.3f);
#pragma GCC unroll 12
  for (__m256& c : chain) {
    c = a;
    __asm__ volatile("" : "+x"(c));  // equal chains would be computed once
  }
  for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) chain[c] = _mm256_fmadd_ps(a, b, chain[c]);
  }
#pragma GCC unroll 12
  for (__m256& c : chain) __asm__ volatile("" ::"x"(c));
}

void Int8(std::int64_t rounds) {
  __m256i chain[kChains];
  const __m256i a = _mm256_set1_epi32(0x1b2f3d05), b = _mm256_set1_epi32(0x11e7f30d), ones = _mm256_set1_epi16(1);
#pragma GCC unroll 12
  for (__m256i& c : chain) {
    c = a;
    __asm__ volatile("" : "+x"(c));  // equal chains would be computed once
  }
  for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) {
      __m256i left = a;
      __asm__ volatile("" : "+x"(left));  // the product is computed each time
      chain[c] = _mm256_add_epi32(chain[c], _mm256_madd_epi16(_mm256_maddubs_epi16(left, b), ones));
    }
  }
#pragma GCC unroll 12
  for (__m256i& c : chain) __asm__ volatile("" ::"x"(c));
}

}  // namespace

ComputeCeiling CeilingAvx2Fp32() { return {"fp32", "vfmadd (256 bits)", kChains * 8 * 2, Fp32}; }
ComputeCeiling CeilingAvx2Int8() { return {"int8", "vpmaddubsw, vpmaddwd, vpaddd", kChains * 32 * 2, Int8}; }

void ReadInOrderAvx2(const std::byte* memory, std::size_t bytes) {
  __m256i sum[4] = {};
  for (std::size_t i = 0; i < bytes; i += 128) {
    const auto* p = reinterpret_cast<const __m256i*>(memory + i);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[j] = _mm256_xor_si256(sum[j], _mm256_loadu_si256(p + j));
  }
#pragma GCC unroll 4
  for (__m256i& s : sum) __asm__ volatile("" ::"x"(s));
}

}  // namespace skein::kernels
