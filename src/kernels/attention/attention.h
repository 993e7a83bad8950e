// SPDX-License-Identifier: Apache-2.0
//
// attention: softmax(q Kt * scale) V over stored keys, one definition for prompts and generated tokens
// (architecture.md §4): keys in splits of 256 by absolute position; per split an independent (max, sum, weighted V) with
// probabilities rounded against the split's own maximum; splits folded in ascending order. K and V are read as stored,
// also within the chunk that wrote them. The result of a row depends on its own query and keys only.
//
// KV memory comes in frames: 64 positions of one (layer, KV head), K then V then scales, contiguous. A frame has four
// quarters of 16 positions, which are what a block table names: block b is quarter b % 4 of frame b / 4. Wherever the quarters
// of a sequence stand, its results have the same bits; those that stand in order in one frame are read without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ids.h"
#include "kernels/arithmetic.h"

namespace skein::kernels {

inline constexpr int kFrameTokens = 64;
inline constexpr int kBlockTokens = 16;  // a quarter of a frame
inline constexpr int kFrameBlocks = kFrameTokens / kBlockTokens;
inline constexpr int kSplitKeys = 256;

enum class KvType { kBf16, kInt8, kFp8, kF32 };  // FP8 is E4M3 (tensor/e4m3.h); F32 with the exact arithmetic only
std::string_view NameOf(KvType type);
std::optional<KvType> KvTypeFromName(std::string_view name);

// Whether elements are bytes with a scale per token and head vector.
static constexpr bool HasScales(KvType type) { return type == KvType::kInt8 || type == KvType::kFp8; }

// Bytes of a frame, head_dim padded to a multiple of 32 (d) with zeros:
//   BF16  K: [4 key tiles of 16][d/2 pairs][16 keys][2]; V: [2 key tiles of 32][d/16][16 key pairs][16 columns][2]
//   INT8, FP8  the same places with one byte each, then fp32 scales of K [64] and of V [64]: per token and head vector
//   F32   K: [64][d]; V: [64][d]
struct KvLayout {
  KvType type = KvType::kBf16;
  int head_dim = 0;

  int padded_head_dim() const { return (head_dim + 31) / 32 * 32; }
  std::size_t v_offset() const;       // of V in a frame
  std::size_t scales_offset() const;  // of the scales (INT8, FP8)
  std::size_t frame_bytes() const;    // a multiple of 64
};

// Rows of queries that share one KV head and one sequence: `tokens` consecutive positions, `group` query heads each.
struct AttentionBlock {
  KvLayout layout;
  const std::byte* frames = nullptr;  // frame 0 of this layer and KV head; the others lie behind it in order
  const BlockId* blocks = nullptr;    // the sequence's block table: by position / 16
  const float* queries = nullptr;  // fp32 after RoPE: token i, head g, at queries + i * query_stride + g * head_dim
  std::ptrdiff_t query_stride = 0;           // floats
  int tokens = 0;
  int group = 0;
  int first_position = 0;  // token i sees keys 0 .. first_position + i
  float scale = 1.0f;
};

struct AttentionKernel {
  std::string_view name;
  // Writes one token's K and V vectors, fp32 [head_dim] each (K after RoPE), to `slot` 0..63 of a frame. Writing slot 0,
  // 16, 32 or 48 first clears the quarter that begins there, so that absent keys are zeros, never leftovers.
  void (*store)(const KvLayout& layout, std::byte* frame, int slot, const float* k, const float* v) = nullptr;
  // The whole block: out, fp32, token i head g at out + i * out_stride + g * head_dim.
  void (*attend)(const AttentionBlock& block, float* out, std::ptrdiff_t out_stride, std::byte* scratch) = nullptr;
  // Splits [begin, end) of a block apart, for many keys and few rows: partials of rows = tokens * group,
  // fp32 [end - begin][rows][2 + head_dim]: maximum, sum, weighted V. Same bits as attend after fold.
  void (*attend_splits)(const AttentionBlock& block, int begin, int end, float* partials, std::byte* scratch) = nullptr;
  void (*fold)(const AttentionBlock& block, int splits, const float* partials, float* out, std::ptrdiff_t out_stride) = nullptr;
  std::size_t (*scratch_bytes)(const KvLayout& layout) = nullptr;
  int preferred_rows = 32;  // rows of a block that use the kernel well (tokens * group)
};

// Copies the quarter that begins at slot `from_slot` of a frame to the one at `to_slot` of another.
void CopyQuarter(const KvLayout& layout, const std::byte* from, int from_slot, std::byte* to, int to_slot);

// Whether a KV type goes with an arithmetic: F32 with exact only, the others with the other three.
bool HasKvType(Arithmetic arithmetic, KvType type);

// int8g32 and bf16p sum as vdpbf16ps does, bf16t as tdpbf16ps, exact in fp32. Falls back as SelectLinear does.
AttentionKernel SelectAttention(KernelPath path, Arithmetic arithmetic, KvType type);

}  // namespace skein::kernels
