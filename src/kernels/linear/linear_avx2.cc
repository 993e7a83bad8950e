// SPDX-License-Identifier: Apache-2.0
//
// exact, bf16p and bf16t by 256-bit FMAs: linear_chain_impl.h with this vector type. int8g32 by 16-bit products.
#include <immintrin.h>

#include "kernels/linear/linear_chain_impl.h"

namespace skein::kernels {
namespace {

struct Vector256 {
  using F = __m256;
  using I = __m256i;
  static constexpr int kLanes = 8;
  static constexpr int kRows = 6;
  static constexpr int kRowsTwo = 3;

  static F LoadF(const float* p) { return _mm256_loadu_ps(p); }
  static void StoreF(float* p, F v) { _mm256_storeu_ps(p, v); }
  static F Broadcast(const float* p) { return _mm256_broadcast_ss(p); }
  static F Step(F acc, F w, F x) { return _mm256_fmadd_ps(w, x, acc); }
  static F Fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F Add(F a, F b) { return _mm256_add_ps(a, b); }
  static F Sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F Mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F Zero() { return _mm256_setzero_ps(); }
  static I LoadI(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static I SetI(int value) { return _mm256_set1_epi32(value); }
  template <int n>
  static I ShiftRight(I v) { return _mm256_srli_epi32(v, n); }
  template <int n>
  static I ShiftRightSigned(I v) { return _mm256_srai_epi32(v, n); }
  template <int n>
  static I ShiftLeft(I v) { return _mm256_slli_epi32(v, n); }
  static I And(I a, I b) { return _mm256_and_si256(a, b); }
  static I Or(I a, I b) { return _mm256_or_si256(a, b); }
  static I AddI(I a, I b) { return _mm256_add_epi32(a, b); }
  static I SubI(I a, I b) { return _mm256_sub_epi32(a, b); }
  static F ToFloat(I v) { return _mm256_cvtepi32_ps(v); }
  static I Bits(F v) { return _mm256_castps_si256(v); }
  static F FromBits(I v) { return _mm256_castsi256_ps(v); }
  static F HalvesToFloat(const std::uint16_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static F Bf16ToFloat(const std::uint16_t* p) {
    return FromBits(ShiftLeft<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))));
  }
  static F SwappedBf16ToFloat(const std::uint16_t* p) {
    const I pairs = _mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return FromBits(Or(_mm256_slli_epi64(pairs, 48), And(pairs, _mm256_set1_epi64x(0xffff0000))));
  }
  static I HalfBits(F v) { return _mm256_cvtepi16_epi32(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)); }
  static F MakeOdd(F sum, F error) {
    const I bits = Bits(sum);
    const I inexact = Bits(_mm256_cmp_ps(error, Zero(), _CMP_NEQ_OQ));
    const I even = _mm256_cmpeq_epi32(And(bits, SetI(1)), _mm256_setzero_si256());
    const I step = Or(ShiftRightSigned<31>(_mm256_xor_si256(bits, Bits(error))), SetI(1));
    return FromBits(AddI(bits, And(step, And(inexact, even))));
  }
};

// int8g32: one row of activations against 16 columns at a time. Bytes are widened to 16 bits, so that sums of products of
// any q and a are exact (vpmaddubsw would saturate on q + 128). Stored quads k0 k2 k1 k3 of weights and activations pair up
// byte by byte, whatever their order.
template <WeightFormat format, int rows>
void Int8Block(const LinearTask& task, const std::byte* panel, int row, float* sums) {
  constexpr int kOffset = format == WeightFormat::kW8 ? 128 : format == WeightFormat::kW4 ? 8 : 0;
  const __m256i low_words = _mm256_set1_epi32(0x00ff00ff);
  const __m256i low_nibbles = _mm256_set1_epi8(0x0f);
  for (int column = 0; column < kWidth; column += 8) {
    __m256 acc[rows];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) acc[r] = _mm256_setzero_ps();
    for (int cell = 0; cell < task.cells; ++cell) {
      const QuantisedCell from = QuantisedCellOf(format, panel, cell);
      __m256i sum[rows];
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const std::int32_t all = task.sums[(row + r) * task.scale_stride + cell];
        sum[r] = _mm256_set1_epi32(-kOffset * all);
      }
      for (int quad = 0; quad < 8; ++quad) {
        __m256i x = Vector256::LoadI(from.quads + static_cast<std::size_t>(quad) * kRowBytes + 4 * static_cast<std::size_t>(column));
        if constexpr (format != WeightFormat::kW8) {
          if (from.shift != 0) x = _mm256_srli_epi16(x, 4);
          x = _mm256_and_si256(x, low_nibbles);
        }
        const __m256i even = _mm256_and_si256(x, low_words);   // bytes 0 and 2 as words
        const __m256i odd = _mm256_srli_epi16(x, 8);           // bytes 1 and 3
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
          const auto* a = reinterpret_cast<const std::int32_t*>(task.values + (row + r) * task.value_stride + cell * kCell + 4 * quad);
          const __m256i broadcast = _mm256_set1_epi32(*a);
          const __m256i a_odd = _mm256_srai_epi16(broadcast, 8);
          const __m256i a_even = _mm256_srai_epi16(_mm256_slli_epi16(broadcast, 8), 8);
          sum[r] = _mm256_add_epi32(sum[r], _mm256_add_epi32(_mm256_madd_epi16(even, a_even), _mm256_madd_epi16(odd, a_odd)));
        }
      }
      const __m256 scale = Vector256::HalvesToFloat(from.scales + column);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const std::ptrdiff_t at = (row + r) * task.scale_stride + cell;
        const __m256 factor = _mm256_mul_ps(_mm256_set1_ps(task.scales[at]), scale);
        acc[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r]), factor, acc[r]);
        if constexpr (format == WeightFormat::kW4Min) {
          acc[r] = _mm256_fmadd_ps(Vector256::HalvesToFloat(from.minima + column),
                                   _mm256_set1_ps(task.scaled_sums[at]), acc[r]);
        }
      }
    }
    const __m256 column_scale = _mm256_loadu_ps(ColumnScalesOf(format, panel, task.cells) + column);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) _mm256_storeu_ps(sums + r * kWidth + column, _mm256_mul_ps(acc[r], column_scale));
  }
}

// What rounding left of the activations of uneven cells, added to finished rows of a tile.
template <WeightFormat format>
void AddResiduals(const LinearTask& task, const std::byte* panel, int row_begin, int rows, float* tile) {
  constexpr int kOffset = format == WeightFormat::kW8 ? 128 : format == WeightFormat::kW4 ? 8 : 0;
  const float* column_scales = ColumnScalesOf(format, panel, task.cells);
  for (int row = row_begin; row < row_begin + rows; ++row, tile += kWidth) {
    for (int cell = 0; cell < task.cells; ++cell) {
      if (task.uneven[row * task.uneven_stride + cell] == 0) continue;
      const std::ptrdiff_t at = row * task.scale_stride + cell;
      const QuantisedCell from = QuantisedCellOf(format, panel, cell);
      const std::int8_t* a = task.residuals + row * task.value_stride + cell * kCell;
      const __m256 step = _mm256_set1_ps(task.scales[at] * kResidualStep);
      for (int column = 0; column < kWidth; column += 8) {
        __m256i sum = _mm256_set1_epi32(-kOffset * task.residual_sums[at]);
        for (int quad = 0; quad < 8; ++quad) {
          __m256i x = Vector256::LoadI(from.quads + static_cast<std::size_t>(quad) * kRowBytes + 4 * static_cast<std::size_t>(column));
          if constexpr (format != WeightFormat::kW8) {
            if (from.shift != 0) x = _mm256_srli_epi16(x, 4);
            x = _mm256_and_si256(x, _mm256_set1_epi8(0x0f));
          }
          const __m256i broadcast = _mm256_set1_epi32(*reinterpret_cast<const std::int32_t*>(a + 4 * quad));
          const __m256i a_odd = _mm256_srai_epi16(broadcast, 8);
          const __m256i a_even = _mm256_srai_epi16(_mm256_slli_epi16(broadcast, 8), 8);
          sum = _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_madd_epi16(_mm256_and_si256(x, _mm256_set1_epi32(0x00ff00ff)), a_even),
                                                       _mm256_madd_epi16(_mm256_srli_epi16(x, 8), a_odd)));
        }
        const __m256 factor = _mm256_mul_ps(step, _mm256_mul_ps(Vector256::HalvesToFloat(from.scales + column),
                                                                _mm256_loadu_ps(column_scales + column)));
        _mm256_storeu_ps(tile + column, _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), factor, _mm256_loadu_ps(tile + column)));
      }
    }
  }
}

}  // namespace

template <WeightFormat format, Arithmetic arithmetic>
void LinearAvx2(const LinearTask& task) {
  RunChains<Vector256, FmaSource<Vector256, format, arithmetic>>(task);
}

template <WeightFormat format>
void LinearAvx2Int8G32(const LinearTask& task) {
  auto* sums = reinterpret_cast<float*>(task.scratch + kSumsAt);
  for (int index = task.panel_begin; index < task.panel_end; ++index) {
    const std::byte* panel = task.panels + task.panel_stride * static_cast<std::size_t>(index);
    for (int row = task.row_begin; row < task.row_end; row += kPieceRows) {
      const int rows = Less(kPieceRows, task.row_end - row);
      int r = 0;
      for (; r + 4 <= rows; r += 4) Int8Block<format, 4>(task, panel, row + r, sums + r * kWidth);
      for (; r < rows; ++r) Int8Block<format, 1>(task, panel, row + r, sums + r * kWidth);
      AddResiduals<format>(task, panel, row, rows, sums);
      task.take(task.context, index, row, rows, sums);
    }
  }
}

#define SKEIN_INSTANTIATE(arithmetic)                                       \
  template void LinearAvx2<WeightFormat::kW4, arithmetic>(const LinearTask&);    \
  template void LinearAvx2<WeightFormat::kW4Min, arithmetic>(const LinearTask&); \
  template void LinearAvx2<WeightFormat::kW8, arithmetic>(const LinearTask&);    \
  template void LinearAvx2<WeightFormat::kBf16, arithmetic>(const LinearTask&);
SKEIN_INSTANTIATE(Arithmetic::kExact)
SKEIN_INSTANTIATE(Arithmetic::kBf16P)
SKEIN_INSTANTIATE(Arithmetic::kBf16T)
#undef SKEIN_INSTANTIATE
template void LinearAvx2<WeightFormat::kF32, Arithmetic::kExact>(const LinearTask&);
template void LinearAvx2Int8G32<WeightFormat::kW4>(const LinearTask&);
template void LinearAvx2Int8G32<WeightFormat::kW4Min>(const LinearTask&);
template void LinearAvx2Int8G32<WeightFormat::kW8>(const LinearTask&);

}  // namespace skein::kernels
