// SPDX-License-Identifier: Apache-2.0
//
// attention as plain loops over rows, keys and dimensions: what docs/numerics.md defines, bit for bit. Slow and
// obvious; never optimised.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/attention/attention_paths.h"
#include "kernels/attention/frame.h"
#include "kernels/simd/scalar_math.h"
#include "tensor/e4m3.h"

namespace skein::kernels {
namespace {

using math::ScalarBf16;
using math::ScalarExp2OfNegative;
using math::ScalarFromBf16;

// The three ways to sum products of `n` pairs; n is a multiple of 32 for the first two.
enum class Kind { kTiles, kPairs, kChain };

template <typename Left, typename Right>
float Dot(Kind kind, int n, Left left, Right right) {
  float sum = 0.0f;
  switch (kind) {
    case Kind::kTiles:  // as tdpbf16ps: per 32, even and odd products apart
      for (int begin = 0; begin < n; begin += 32) {
        float even = 0.0f, odd = 0.0f;
        for (int i = begin; i < begin + 32; i += 2) {
          even = std::fma(left(i), right(i), even);
          odd = std::fma(left(i + 1), right(i + 1), odd);
        }
        sum = sum + (even + odd);
      }
      break;
    case Kind::kPairs:  // as vdpbf16ps: of each pair the odd product first
      for (int i = 0; i < n; i += 2) {
        sum = std::fma(left(i + 1), right(i + 1), sum);
        sum = std::fma(left(i), right(i), sum);
      }
      break;
    case Kind::kChain:
      for (int i = 0; i < n; ++i) sum = std::fma(left(i), right(i), sum);
      break;
  }
  return sum;
}

float KeyElement(const KvLayout& layout, const std::byte* frame, int slot, int dim) {
  const int d = layout.padded_head_dim();
  switch (layout.type) {
    case KvType::kBf16:
      return ScalarFromBf16(reinterpret_cast<const std::uint16_t*>(frame)[KeyPlace(d, slot, dim)]);
    case KvType::kInt8:
      return static_cast<float>(reinterpret_cast<const std::int8_t*>(frame)[KeyPlace(d, slot, dim)]);
    case KvType::kFp8:
      return FloatFromE4M3(reinterpret_cast<const std::uint8_t*>(frame)[KeyPlace(d, slot, dim)]);
    case KvType::kF32:
      return reinterpret_cast<const float*>(frame)[slot * d + dim];
  }
  return 0.0f;
}

float ValueElement(const KvLayout& layout, const std::byte* frame, int slot, int dim) {
  const int d = layout.padded_head_dim();
  const std::byte* values = frame + layout.v_offset();
  switch (layout.type) {
    case KvType::kBf16:
      return ScalarFromBf16(reinterpret_cast<const std::uint16_t*>(values)[ValuePlace(d, slot, dim)]);
    case KvType::kInt8:
      return static_cast<float>(reinterpret_cast<const std::int8_t*>(values)[ValuePlace(d, slot, dim)]);
    case KvType::kFp8:
      return FloatFromE4M3(reinterpret_cast<const std::uint8_t*>(values)[ValuePlace(d, slot, dim)]);
    case KvType::kF32:
      return reinterpret_cast<const float*>(values)[slot * d + dim];
  }
  return 0.0f;
}

// Scale of K (which = 0) or V (1) of a slot; 1 where there are none.
float SlotScale(const KvLayout& layout, const std::byte* frame, int slot, int which) {
  if (!HasScales(layout.type)) return 1.0f;
  return reinterpret_cast<const float*>(frame + layout.scales_offset())[which * kFrameTokens + slot];
}

int VisibleKeys(const AttentionBlock& block, int token, int split) {
  return std::clamp(block.first_position + token + 1 - split * kSplitKeys, 0, kSplitKeys);
}

// One split of one row: maximum, sum, weighted V [head_dim].
void AttendRowSplit(Kind kind, const AttentionBlock& block, int token, int head, int split, float* partial) {
  const KvLayout& layout = block.layout;
  const int d = layout.padded_head_dim();
  const int visible = VisibleKeys(block, token, split);
  const float* query = block.queries + token * block.query_stride + head * layout.head_dim;
  const float scale = block.scale * math::kLog2E;  // so that probabilities are powers of two
  const auto block_of = [&](int key) { return block.blocks[(split * kSplitKeys + key) / kBlockTokens].value; };
  const auto frame_of = [&](int key) { return block.frames + block_of(key) / kFrameBlocks * layout.frame_bytes(); };
  const auto slot_of = [&](int key) {
    return static_cast<int>(block_of(key) % kFrameBlocks) * kBlockTokens + key % kBlockTokens;
  };
  const auto rounded = [&](float x) { return kind == Kind::kChain ? x : ScalarFromBf16(ScalarBf16(x)); };

  float scores[kSplitKeys];
  float maximum = -HUGE_VALF;
  for (int key = 0; key < visible; ++key) {
    const std::byte* frame = frame_of(key);
    const int slot = slot_of(key);
    float score = Dot(
        kind, d, [&](int i) { return i < layout.head_dim ? rounded(query[i] * scale) : 0.0f; },
        [&](int i) { return KeyElement(layout, frame, slot, i); });
    if (HasScales(layout.type)) score = score * SlotScale(layout, frame, slot, 0);
    scores[key] = score;
    maximum = score > maximum ? score : maximum;
  }

  float probabilities[kSplitKeys] = {};
  float lanes[16] = {};
  for (int key = 0; key < visible; ++key) {
    float p = ScalarExp2OfNegative(scores[key] - maximum, kind == Kind::kChain);
    lanes[key % 16] += p;
    if (HasScales(layout.type)) p = p * SlotScale(layout, frame_of(key), slot_of(key), 1);
    probabilities[key] = rounded(p);
  }
  for (int distance = 8; distance > 0; distance /= 2) {
    for (int i = 0; i < distance; ++i) lanes[i] += lanes[i + distance];
  }

  partial[0] = maximum;
  partial[1] = lanes[0];
  const int keys = (visible + 31) / 32 * 32;
  for (int dim = 0; dim < layout.head_dim; ++dim) {
    partial[2 + dim] = Dot(
        kind, keys, [&](int key) { return probabilities[key]; },
        [&](int key) { return key < visible ? ValueElement(layout, frame_of(key), slot_of(key), dim) : 0.0f; });
  }
}

// The running fold of one row over its splits, in ascending order.
struct RowFold {
  float maximum = -HUGE_VALF, sum = 0.0f;

  void Add(int head_dim, const float* partial, float* out) {
    if (partial[0] == -HUGE_VALF) return;  // no visible key
    const float higher = partial[0] > maximum ? partial[0] : maximum;
    const float keep = ScalarExp2OfNegative(maximum - higher, true);
    const float take = ScalarExp2OfNegative(partial[0] - higher, true);
    sum = std::fma(partial[1], take, sum * keep);
    for (int dim = 0; dim < head_dim; ++dim) out[dim] = std::fma(partial[2 + dim], take, out[dim] * keep);
    maximum = higher;
  }
  void Finish(int head_dim, float* out) const {
    const float reciprocal = 1.0f / sum;
    for (int dim = 0; dim < head_dim; ++dim) out[dim] = out[dim] * reciprocal;
  }
};

template <Kind kKind>
void AttendSplits(const AttentionBlock& block, int begin, int end, float* partials, std::byte*) {
  for (int split = begin; split < end; ++split) {
    for (int token = 0; token < block.tokens; ++token) {
      for (int head = 0; head < block.group; ++head) {
        AttendRowSplit(kKind, block, token, head, split, partials);
        partials += 2 + block.layout.head_dim;
      }
    }
  }
}

void Fold(const AttentionBlock& block, int splits, const float* partials, float* out, std::ptrdiff_t out_stride) {
  const int head_dim = block.layout.head_dim;
  const int rows = block.tokens * block.group;
  for (int row = 0; row < rows; ++row) {
    float* into = out + row / block.group * out_stride + row % block.group * head_dim;
    RowFold fold;
    std::fill(into, into + head_dim, 0.0f);
    for (int split = 0; split < splits; ++split) {
      fold.Add(head_dim, partials + (static_cast<std::ptrdiff_t>(split) * rows + row) * (2 + head_dim), into);
    }
    fold.Finish(head_dim, into);
  }
}

template <Kind kKind>
void Attend(const AttentionBlock& block, float* out, std::ptrdiff_t out_stride, std::byte* scratch) {
  const int head_dim = block.layout.head_dim;
  float* partial = reinterpret_cast<float*>(scratch);
  for (int row = 0; row < block.tokens * block.group; ++row) {
    const int token = row / block.group, head = row % block.group;
    float* into = out + token * out_stride + head * head_dim;
    RowFold fold;
    std::fill(into, into + head_dim, 0.0f);
    for (int split = 0; VisibleKeys(block, token, split) > 0; ++split) {
      AttendRowSplit(kKind, block, token, head, split, partial);
      fold.Add(head_dim, partial, into);
    }
    fold.Finish(head_dim, into);
  }
}

std::size_t ScratchBytes(const KvLayout& layout) {
  return static_cast<std::size_t>(2 + layout.padded_head_dim()) * sizeof(float);
}

void ClearQuarter(const KvLayout& layout, std::byte* frame, int slot) {
  const int d = layout.padded_head_dim();
  for (int s = slot; s < slot + kQuarterKeys; ++s) {
    for (int dim = 0; dim < d; ++dim) {
      std::byte* values = frame + layout.v_offset();
      if (layout.type == KvType::kBf16) {
        reinterpret_cast<std::uint16_t*>(frame)[KeyPlace(d, s, dim)] = 0;
        reinterpret_cast<std::uint16_t*>(values)[ValuePlace(d, s, dim)] = 0;
      } else if (HasScales(layout.type)) {
        reinterpret_cast<std::int8_t*>(frame)[KeyPlace(d, s, dim)] = 0;
        reinterpret_cast<std::int8_t*>(values)[ValuePlace(d, s, dim)] = 0;
      } else {
        reinterpret_cast<float*>(frame)[s * d + dim] = 0.0f;
        reinterpret_cast<float*>(values)[s * d + dim] = 0.0f;
      }
    }
    if (HasScales(layout.type)) {
      float* scales = reinterpret_cast<float*>(frame + layout.scales_offset());
      scales[s] = scales[kFrameTokens + s] = 0.0f;
    }
  }
}

// Factor from values to stored numbers, the largest of which is `most`, and the scale back.
struct ByteRounding {
  float inverse = 0.0f, scale = 0.0f;
};
ByteRounding RoundingOf(const float* x, int n, float most) {
  float largest = 0.0f;
  for (int i = 0; i < n; ++i) largest = std::fabs(x[i]) > largest ? std::fabs(x[i]) : largest;
  if (largest < math::kSmallestMagnitude) return {};
  return {most / largest, largest / most};
}

void StoreToken(const KvLayout& layout, std::byte* frame, int slot, const float* k, const float* v) {
  if (slot % kQuarterKeys == 0) ClearQuarter(layout, frame, slot);
  const int d = layout.padded_head_dim();
  std::byte* values = frame + layout.v_offset();
  ByteRounding key_rounding, value_rounding;
  if (HasScales(layout.type)) {
    const float most = layout.type == KvType::kFp8 ? kE4M3Max : kInt8Max;
    key_rounding = RoundingOf(k, layout.head_dim, most);
    value_rounding = RoundingOf(v, layout.head_dim, most);
    float* scales = reinterpret_cast<float*>(frame + layout.scales_offset());
    scales[slot] = key_rounding.scale;
    scales[kFrameTokens + slot] = value_rounding.scale;
  }
  for (int dim = 0; dim < layout.head_dim; ++dim) {
    if (layout.type == KvType::kBf16) {
      reinterpret_cast<std::uint16_t*>(frame)[KeyPlace(d, slot, dim)] = ScalarBf16(k[dim]);
      reinterpret_cast<std::uint16_t*>(values)[ValuePlace(d, slot, dim)] = ScalarBf16(v[dim]);
    } else if (layout.type == KvType::kInt8) {
      reinterpret_cast<std::int8_t*>(frame)[KeyPlace(d, slot, dim)] =
          static_cast<std::int8_t>(std::nearbyint(k[dim] * key_rounding.inverse));
      reinterpret_cast<std::int8_t*>(values)[ValuePlace(d, slot, dim)] =
          static_cast<std::int8_t>(std::nearbyint(v[dim] * value_rounding.inverse));
    } else if (layout.type == KvType::kFp8) {
      reinterpret_cast<std::uint8_t*>(frame)[KeyPlace(d, slot, dim)] = E4M3FromFloat(k[dim] * key_rounding.inverse);
      reinterpret_cast<std::uint8_t*>(values)[ValuePlace(d, slot, dim)] =
          E4M3FromFloat(v[dim] * value_rounding.inverse);
    } else {
      reinterpret_cast<float*>(frame)[slot * d + dim] = k[dim];
      reinterpret_cast<float*>(values)[slot * d + dim] = v[dim];
    }
  }
}

template <Kind kKind>
AttentionKernel Kernel(std::string_view name) {
  return {.name = name,
          .store = StoreToken,
          .attend = Attend<kKind>,
          .attend_splits = AttendSplits<kKind>,
          .fold = Fold,
          .scratch_bytes = ScratchBytes,
          .preferred_rows = 32};
}

}  // namespace

AttentionKernel AttentionRef(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kBf16T:
      return Kernel<Kind::kTiles>("ref/bf16t");
    case Arithmetic::kBf16P:
    case Arithmetic::kInt8G32:
      return Kernel<Kind::kPairs>("ref/bf16p");
    case Arithmetic::kExact:
      break;
  }
  return Kernel<Kind::kChain>("ref/exact");
}

}  // namespace skein::kernels
