// SPDX-License-Identifier: Apache-2.0
//
// Places of elements inside a KV frame (attention.h has the picture), as element indices from the start of K or of V,
// and the roundings of a stored vector. Used by store and by the plain loops of ref.
#pragma once

#include <cstddef>

#include "kernels/attention/attention.h"

namespace skein::kernels {

inline constexpr int kQuarterKeys = 16;  // what a store into slot 0, 16, 32 or 48 clears; also a tile of keys
inline constexpr int kValueTileKeys = 32;
inline constexpr float kInt8Max = 127.0f;  // what the largest number of a vector becomes

// BF16, INT8 and FP8: [key tile of 16][dimension pair][key][2].
constexpr std::size_t KeyPlace(int padded_dim, int slot, int dim) {
  const int tile = slot / 16 * (padded_dim / 2) * 32;
  return static_cast<std::size_t>(tile + dim / 2 * 32 + slot % 16 * 2 + dim % 2);
}

// BF16, INT8 and FP8: [key tile of 32][16 columns][key pair][column][2].
constexpr std::size_t ValuePlace(int padded_dim, int slot, int dim) {
  const int tile = slot / 32 * (padded_dim / 16) * 512;
  return static_cast<std::size_t>(tile + dim / 16 * 512 + slot % 32 / 2 * 32 + dim % 16 * 2 + slot % 2);
}

}  // namespace skein::kernels
