// SPDX-License-Identifier: Apache-2.0
//
// bf16p by vdpbf16ps (AVX512-BF16): linear_chain_impl.h where a step is a pair of K. The instruction adds the odd place's
// product first, then the even one's, each as an FMA. BF16 weights are read from the panel as they are.
#include <immintrin.h>

#include "kernels/linear/linear_chain_impl.h"

namespace skein::kernels {
namespace {

struct PairVector512 {
  using F = __m512;
  using I = __m512i;
  static constexpr int kLanes = 16;
  static constexpr int kRows = 8;
  static constexpr int kRowsTwo = 1;

  static F LoadF(const float* p) { return _mm512_loadu_ps(p); }
  static void StoreF(float* p, F v) { _mm512_storeu_ps(p, v); }
  static F Broadcast(const float* p) { return _mm512_castsi512_ps(_mm512_set1_epi32(*reinterpret_cast<const std::int32_t*>(p))); }
  static F Step(F acc, F w, F x) {
    return _mm512_dpbf16_ps(acc, (__m512bh)_mm512_castps_si512(w), (__m512bh)_mm512_castps_si512(x));
  }
  static F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F Zero() { return _mm512_setzero_ps(); }
};

// Rounds 16 fp32 numbers to bf16 by integers, as ref does (the instruction would flush what is denormal).
__m512i Rounded(__m512 value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i lowest = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), lowest);
}

// One quantised cell as pairs of bf16 [16, 32].
template <WeightFormat format>
void UnpackPairs(const std::byte* panel, int cell, float* into) {
  constexpr bool kMinimum = format == WeightFormat::kW4Min;
  const QuantisedCell from = QuantisedCellOf(format, panel, cell);
  for (int column = 0; column < kWidth; column += 16) {
    const auto halves = [column](const std::uint16_t* p) {
      return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + column)));
    };
    const __m512 scale = halves(from.scales);
    const __m512 minimum = kMinimum ? halves(from.minima) : _mm512_setzero_ps();
    const auto weight = [&](__m512i x) {
      __m512i q = _mm512_and_si512(x, _mm512_set1_epi32(format == WeightFormat::kW8 ? 0xff : 0x0f));
      if constexpr (format == WeightFormat::kW8) q = _mm512_sub_epi32(q, _mm512_set1_epi32(128));
      if constexpr (format == WeightFormat::kW4) q = _mm512_sub_epi32(q, _mm512_set1_epi32(8));
      const __m512 f = _mm512_cvtepi32_ps(q);
      return Rounded(kMinimum ? _mm512_fmadd_ps(f, scale, minimum) : _mm512_mul_ps(f, scale));
    };
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
    for (int r = 0; r < 8; ++r) {
      __m512i x = _mm512_loadu_si512(from.quads + static_cast<std::size_t>(r) * kRowBytes + 4 * static_cast<std::size_t>(column));
      if (from.shift != 0) x = _mm512_srli_epi32(x, 4);
      // Bytes stand k0 k2 k1 k3.
      const __m512i k0 = weight(x);
      const __m512i k2 = weight(_mm512_srli_epi32(x, 8));
      const __m512i k1 = weight(_mm512_srli_epi32(x, 16));
      const __m512i k3 = weight(_mm512_srli_epi32(x, 24));
      // (k1 & upper) | (k0 >> 16)
      const __m512i first = _mm512_ternarylogic_epi32(k1, upper, _mm512_srli_epi32(k0, 16), 0xea);
      const __m512i second = _mm512_ternarylogic_epi32(k3, upper, _mm512_srli_epi32(k2, 16), 0xea);
      _mm512_storeu_si512(into + (2 * r) * kWidth + column, first);
      _mm512_storeu_si512(into + (2 * r + 1) * kWidth + column, second);
    }
  }
}

template <WeightFormat format>
struct PairSource {
  static constexpr int kStepsPerCell = kCell / 2;
  static constexpr bool kTwo = false;
  static constexpr bool kAsksAhead = false;   // Zen 4 is no faster for it
  static constexpr bool kReadsPairs = false;  // where weights are BF16 the panel's pairs are the steps already

  static const float* Weights(const LinearTask&, const std::byte* panel, int cell, int end, float* scratch) {
    if constexpr (format == WeightFormat::kBf16) {
      return reinterpret_cast<const float*>(panel + kBf16UnitBytes * static_cast<std::size_t>(cell));
    } else {
      for (int c = cell; c < end; ++c) UnpackPairs<format>(panel, c, scratch + (c - cell) * (kCell / 2) * kWidth);
      return scratch;
    }
  }

  static const float* Inputs(const LinearTask& task, int row, int, int cell, int, float*, std::ptrdiff_t& stride) {
    stride = task.value_stride / 4;
    return reinterpret_cast<const float*>(task.values + row * task.value_stride) + cell * (kCell / 2);
  }
};

}  // namespace

template <WeightFormat format>
void LinearAvx512Bf16P(const LinearTask& task) {
  RunChains<PairVector512, PairSource<format>>(task);
}

template void LinearAvx512Bf16P<WeightFormat::kW4>(const LinearTask&);
template void LinearAvx512Bf16P<WeightFormat::kW4Min>(const LinearTask&);
template void LinearAvx512Bf16P<WeightFormat::kW8>(const LinearTask&);
template void LinearAvx512Bf16P<WeightFormat::kBf16>(const LinearTask&);

}  // namespace skein::kernels
