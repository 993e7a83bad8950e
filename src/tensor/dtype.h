// SPDX-License-Identifier: Apache-2.0
//
// Element and block formats of tensors as files store them, and their sizes. A block format packs `block_elements`
// consecutive elements of a row into `block_bytes`; plain formats have blocks of one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace skein {

enum class DType : std::uint8_t { kF32, kF16, kBF16, kQ4_0, kQ4_1, kQ8_0 };

struct DTypeInfo {
  std::string_view name;  // "Q4_1": as GGUF calls it
  int block_elements;
  int block_bytes;
};

const DTypeInfo& InfoOf(DType type);
std::optional<DType> DTypeFromName(std::string_view name);

// Bytes of a row of `elements`, or nothing when they are no whole number of blocks or the size does not fit 64 bits.
std::optional<std::uint64_t> RowBytes(DType type, std::uint64_t elements);

}  // namespace skein
