// SPDX-License-Identifier: Apache-2.0
#include "comm/wire/wire.h"

#include "comm/wire/wire_paths.h"
#include "kernels/cpu.h"

namespace skein::comm {
namespace {

constexpr std::string_view kNames[] = {"fp32", "bf16", "int8"};

}  // namespace

std::string_view NameOf(WireType type) { return kNames[static_cast<int>(type)]; }

std::optional<WireType> WireTypeFromName(std::string_view name) {
  for (int i = 0; i < 3; ++i) {
    if (kNames[i] == name) return static_cast<WireType>(i);
  }
  return std::nullopt;
}

std::size_t WireLayout::UnitBytes() const {
  switch (type) {
    case WireType::kFp32: return kUnitColumns * 4;
    case WireType::kBf16: return kUnitColumns * 2;
    case WireType::kInt8: break;
  }
  return kUnitColumns + 4;
}

std::size_t WireLayout::RowBytes() const {
  const auto n = static_cast<std::size_t>(columns);
  switch (type) {
    case WireType::kFp32: return n * 4;
    case WireType::kBf16: return (n + 31) / 32 * 64;
    case WireType::kInt8: break;
  }
  return n + 4 * static_cast<std::size_t>(UnitsPerRow());
}

std::size_t WireLayout::Offset(std::int64_t unit) const {
  const int per_row = UnitsPerRow();
  return static_cast<std::size_t>(unit / per_row) * RowBytes() + static_cast<std::size_t>(unit % per_row) * UnitBytes();
}

const WireKernels& SelectWire(kernels::KernelPath path) {
#if defined(__x86_64__)
  switch (path) {
    case kernels::KernelPath::kAmx:
    case kernels::KernelPath::kAvx512Vnni:
      return kernels::Cpu().avx512_bf16 ? WireAvx512Bf16() : WireAvx512();
    case kernels::KernelPath::kAvx2:
      return WireAvx2();
    case kernels::KernelPath::kRef:
      break;
  }
#else
  static_cast<void>(path);
#endif
  return WireRef();
}

}  // namespace skein::comm
