// SPDX-License-Identifier: Apache-2.0
//
// Writing a token's K and V into a frame, over V16. Included by the attention units, which their flags make different;
// everything here has internal linkage. attention_ref.cc says in plain loops what it means.
#pragma once

#include <cstring>

#include "kernels/attention/frame.h"
#include "kernels/simd/v16.h"
#include "tensor/e4m3.h"

namespace skein::kernels {
namespace {

using namespace simd;  // NOLINT: an implementation shared by few units

// The quarter [slot, slot + 16) becomes zeros. K: one tile; V: half of each [key pair][column] block of a tile of 32.
void ClearQuarter(const KvLayout& layout, std::byte* frame, int slot) {
  const auto d = static_cast<std::size_t>(layout.padded_head_dim());
  const auto s = static_cast<std::size_t>(slot);
  std::byte* values = frame + layout.v_offset();
  if (layout.type == KvType::kF32) {
    std::memset(frame + s * d * 4, 0, 16 * d * 4);
    std::memset(values + s * d * 4, 0, 16 * d * 4);
    return;
  }
  const std::size_t element = layout.type == KvType::kBf16 ? 2 : 1;
  std::memset(frame + s * d * element, 0, 16 * d * element);
  for (std::size_t block = 0; block < d / 16; ++block) {
    std::memset(values + (s / 32 * d * 32 + block * 512 + s % 32 * 16) * element, 0, 256 * element);
  }
  if (HasScales(layout.type)) {
    std::byte* scales = frame + layout.scales_offset();
    std::memset(scales + s * 4, 0, 64);
    std::memset(scales + (kFrameTokens + s) * 4, 0, 64);
  }
}

// Dimensions [dim, dim + 16) of a vector, zero beyond its end.
SKEIN_V16_INLINE V16 LoadDims(const float* x, int dim, int head_dim) {
  const int left = head_dim - dim;
  return left >= 16 ? Load(x + dim) : left > 0 ? LoadPartial(x + dim, left) : Zero();
}

SKEIN_V16_INLINE void StoreBf16Token(const KvLayout& layout, std::byte* frame, int slot, const float* k,
                                     const float* v) {
  const int d = layout.padded_head_dim();
  std::byte* keys = frame + slot / 16 * d * 32 + slot % 16 * 4;
  std::byte* values = frame + layout.v_offset() + slot / 32 * d * 64 + slot % 32 / 2 * 64;
  for (int dim = 0; dim < layout.head_dim; dim += 16) {
    alignas(32) std::uint32_t pairs[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(pairs), ToBf16(LoadDims(k, dim, layout.head_dim)));
    for (int i = 0; i < 8; ++i) std::memcpy(keys + (dim / 2 + i) * 64, &pairs[i], 4);
    float* row = reinterpret_cast<float*>(values + dim / 16 * 1024);
    const V16 rounded = FromBf16(ToBf16(LoadDims(v, dim, layout.head_dim)));
    Store(row, slot % 2 == 0 ? ReplaceEven(Load(row), rounded) : ReplaceOdd(Load(row), rounded));
  }
}

// The largest stored number / max|x|, and the scale, its inverse; both 0 for a vector of zeros.
struct ByteRounding {
  float inverse, scale;
};
SKEIN_V16_INLINE ByteRounding RoundingOf(const float* x, int head_dim, float most) {
  V16 largest = Zero();
  for (int dim = 0; dim < head_dim; dim += 16) largest = Max(Abs(LoadDims(x, dim, head_dim)), largest);
  const float magnitude = ReduceMax(largest);
  if (magnitude < math::kSmallestMagnitude) return {0.0f, 0.0f};
  return {most / magnitude, magnitude / most};
}

// 16 numbers as bytes.
template <KvType type>
SKEIN_V16_INLINE __m128i ToBytes(V16 x) {
  if constexpr (type == KvType::kFp8) return ToE4M3(x);
  return ToInt8(x);
}

template <KvType type>
SKEIN_V16_INLINE void StoreBytesToken(const KvLayout& layout, std::byte* frame, int slot, const float* k,
                                      const float* v) {
  const int d = layout.padded_head_dim();
  std::byte* keys = frame + slot / 16 * d * 16 + slot % 16 * 2;
  std::byte* values = frame + layout.v_offset() + slot / 32 * d * 32 + slot % 32 / 2 * 32;
  constexpr float kMost = type == KvType::kFp8 ? kE4M3Max : kInt8Max;
  const ByteRounding key_rounding = RoundingOf(k, layout.head_dim, kMost),
                     value_rounding = RoundingOf(v, layout.head_dim, kMost);
  float* scales = reinterpret_cast<float*>(frame + layout.scales_offset());
  scales[slot] = key_rounding.scale;
  scales[kFrameTokens + slot] = value_rounding.scale;
  const __m256i odd_bytes = _mm256_set1_epi16(static_cast<short>(0xff00));
  for (int dim = 0; dim < layout.head_dim; dim += 16) {
    alignas(16) std::uint16_t pairs[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(pairs),
                    ToBytes<type>(Mul(LoadDims(k, dim, layout.head_dim), Set(key_rounding.inverse))));
    for (int i = 0; i < 8; ++i) std::memcpy(keys + (dim / 2 + i) * 32, &pairs[i], 2);
    const __m256i q =
        _mm256_cvtepu8_epi16(ToBytes<type>(Mul(LoadDims(v, dim, layout.head_dim), Set(value_rounding.inverse))));
    __m256i* row = reinterpret_cast<__m256i*>(values + dim / 16 * 512);
    const __m256i old = _mm256_loadu_si256(row);
    _mm256_storeu_si256(row, slot % 2 == 0
                                 ? _mm256_or_si256(_mm256_and_si256(old, odd_bytes), q)
                                 : _mm256_or_si256(_mm256_andnot_si256(odd_bytes, old), _mm256_slli_epi16(q, 8)));
  }
}

void StoreToken(const KvLayout& layout, std::byte* frame, int slot, const float* k, const float* v) {
  if (slot % kQuarterKeys == 0) ClearQuarter(layout, frame, slot);
  switch (layout.type) {
    case KvType::kBf16:
      StoreBf16Token(layout, frame, slot, k, v);
      return;
    case KvType::kInt8:
      StoreBytesToken<KvType::kInt8>(layout, frame, slot, k, v);
      return;
    case KvType::kFp8:
      StoreBytesToken<KvType::kFp8>(layout, frame, slot, k, v);
      return;
    case KvType::kF32: {
      const auto row = static_cast<std::size_t>(slot * layout.padded_head_dim()) * 4;
      const auto bytes = static_cast<std::size_t>(layout.head_dim) * 4;
      std::memcpy(frame + row, k, bytes);
      std::memcpy(frame + layout.v_offset() + row, v, bytes);
      return;
    }
  }
}

}  // namespace
}  // namespace skein::kernels
