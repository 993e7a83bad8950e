// SPDX-License-Identifier: Apache-2.0
//
// Layout of KV frames, and the choice of an attention kernel.
#include "kernels/attention/attention.h"

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
    case KvType::kF32:
      return "f32";
  }
  return "";
}

std::optional<KvType> KvTypeFromName(std::string_view name) {
  for (KvType type : {KvType::kBf16, KvType::kInt8, KvType::kF32}) {
    if (NameOf(type) == name) return type;
  }
  return std::nullopt;
}

std::size_t KvLayout::v_offset() const {
  return static_cast<std::size_t>(kFrameTokens * padded_head_dim()) * ElementBytes(type);
}

std::size_t KvLayout::scales_offset() const { return 2 * v_offset(); }

std::size_t KvLayout::frame_bytes() const {
  return scales_offset() + (type == KvType::kInt8 ? 2u * kFrameTokens * sizeof(float) : 0u);
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
  // Processors with tiles run vdpbf16ps at half the rate of fp32 FMAs.
  if (arithmetic != Arithmetic::kExact && Cpu().avx512_bf16 && !Cpu().amx) return AttentionAvx512Bf16();
  return AttentionAvx512(arithmetic);
#else
  static_cast<void>(path);
  return AttentionRef(arithmetic);
#endif
}

}  // namespace skein::kernels
