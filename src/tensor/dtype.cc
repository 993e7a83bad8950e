// SPDX-License-Identifier: Apache-2.0
#include "tensor/dtype.h"

#include <array>

#include "base/checked.h"

namespace skein {
namespace {

// Block layouts (little-endian): Q4_0 {f16 d; 16 bytes, low nibbles first half}, Q4_1 {f16 d; f16 m; 16 bytes},
// Q8_0 {f16 d; 32 int8}. Source: the GGUF specification of the ggml project.
constexpr std::array<DTypeInfo, 6> kInfos = {{
    {"F32", 1, 4}, {"F16", 1, 2}, {"BF16", 1, 2}, {"Q4_0", 32, 18}, {"Q4_1", 32, 20}, {"Q8_0", 32, 34},
}};

}  // namespace

const DTypeInfo& InfoOf(DType type) { return kInfos[static_cast<std::size_t>(type)]; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (std::size_t i = 0; i < kInfos.size(); ++i) {
    if (kInfos[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> RowBytes(DType type, std::uint64_t elements) {
  const DTypeInfo& info = InfoOf(type);
  if (elements % static_cast<std::uint64_t>(info.block_elements) != 0) return std::nullopt;
  return CheckedMultiply(elements / static_cast<std::uint64_t>(info.block_elements),
                         static_cast<std::uint64_t>(info.block_bytes));
}

}  // namespace skein
