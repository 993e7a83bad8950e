// SPDX-License-Identifier: Apache-2.0
//
// Layout of KV frames, and the choice of an attention kernel.
#include "kernels/attention/attention.h"

#include <cstring>

#include "base/check.h"
#include "kernels/attention/attention_paths.h"
#include "kernels/cpu.h"

namespace skein::kernels {
namespace {

std::size_t ElementBytes(KvType type) {
  switch (type) {
    case KvType::kBf16:
      return 2;
    case KvType::kInt8:
    case KvType::kFp8:
      return 1;
    case KvType::kF32:
      return 4;
  }
  return 0;
}

}  // namespace

std::string_view NameOf(KvType type) {
  switch (type) {
    case KvType::kBf16:
      return "bf16";
    case KvType::kInt8:
      return "int8";
    case KvType::kFp8:
      return "fp8";
    case KvType::kF32:
      return "f32";
  }
  return "";
}

std::optional<KvType> KvTypeFromName(std::string_view name) {
  for (KvType type : {KvType::kBf16, KvType::kInt8, KvType::kFp8, KvType::kF32}) {
    if (NameOf(type) == name) return type;
  }
  return std::nullopt;
}

std::size_t KvLayout::v_offset() const {
  return static_cast<std::size_t>(kFrameTokens * padded_head_dim()) * ElementBytes(type);
}

std::size_t KvLayout::scales_offset() const { return 2 * v_offset(); }

std::size_t KvLayout::frame_bytes() const {
  return scales_offset() + (HasScales(type) ? 2u * kFrameTokens * sizeof(float) : 0u);
}

void CopyQuarter(const KvLayout& layout, const std::byte* from, int from_slot, std::byte* to, int to_slot) {
  const auto d = static_cast<std::size_t>(layout.padded_head_dim());
  const auto source = static_cast<std::size_t>(from_slot), target = static_cast<std::size_t>(to_slot);
  const std::size_t element = ElementBytes(layout.type);
  std::memcpy(to + target * d * element, from + source * d * element, 16 * d * element);
  const std::byte* values = from + layout.v_offset();
  std::byte* into = to + layout.v_offset();
  if (layout.type == KvType::kF32) {
    std::memcpy(into + target * d * element, values + source * d * element, 16 * d * element);
    return;
  }
  const auto half = [&](std::size_t slot) { return (slot / 32 * d * 32 + slot % 32 * 16) * element; };  // of a tile of 32 keys
  for (std::size_t columns = 0; columns < d / 16; ++columns) {
    std::memcpy(into + half(target) + columns * 512 * element, values + half(source) + columns * 512 * element, 256 * element);
  }
  if (!HasScales(layout.type)) return;
  for (const std::size_t scales : {std::size_t{0}, std::size_t{kFrameTokens}}) {
    std::memcpy(to + layout.scales_offset() + (scales + target) * sizeof(float),
                from + layout.scales_offset() + (scales + source) * sizeof(float), 16 * sizeof(float));
  }
}

bool HasKvType(Arithmetic arithmetic, KvType type) {
  return (arithmetic == Arithmetic::kExact) == (type == KvType::kF32);
}

AttentionKernel SelectAttention(KernelPath path, Arithmetic arithmetic, KvType type) {
  SKEIN_CHECK(HasKvType(arithmetic, type));
#if defined(__x86_64__)
  if (path == KernelPath::kRef) return AttentionRef(arithmetic);
  if (arithmetic == Arithmetic::kBf16T) {
    return path == KernelPath::kAmx ? AttentionAmx() : AttentionRef(arithmetic);
  }
  if (path == KernelPath::kAvx2) return AttentionAvx2(arithmetic);
  if (arithmetic == Arithmetic::kExact || !Cpu().avx512_vbmi) return AttentionAvx512(arithmetic);
  return Cpu().avx512_bf16 && Cpu().fast_bf16_dot ? AttentionAvx512Bf16() : AttentionAvx512Vbmi();
#else
  static_cast<void>(path);
  return AttentionRef(arithmetic);
#endif
}

}  // namespace skein::kernels
