// SPDX-License-Identifier: Apache-2.0
//
// Random weights as blocks of a file, for models that are made and not trained: `skein make-model` and tests. The
// bytes depend on (seed, tensor, place) only, so any piece can be made by itself, in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace skein::formats {

// Fills `into` with whole blocks, the first being number `first_block` of the tensor. Values have mean 0 and about
// `deviation` as standard deviation; scales of blocks vary by a factor of up to 1.7.
// Requires: into.size() is a multiple of the format's block_bytes.
void FillRandomBlocks(DType dtype, std::uint64_t seed, std::uint64_t first_block, float deviation,
                      std::span<std::byte> into);

// A value of its own for every (seed, counter), evenly distributed (a finaliser of the splitmix64 kind).
constexpr std::uint64_t MixedBits(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t x = seed + (counter + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace skein::formats
