// SPDX-License-Identifier: Apache-2.0
//
// ceilings: loops that do one thing and nothing else, so that their speed is the most this processor has of it: products of
// int8, bf16 and fp32 over registers, and reading memory in order. `skein bench kernels` holds the kernels against them.
// Operands are like real data where that matters (a unit that multiplies zeros runs faster than it can with numbers).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace skein::kernels {

struct ComputeCeiling {
  std::string_view name;         // "int8", "bf16", "fp32": of what is multiplied
  std::string_view instruction;  // "vpdpbusd"
  double operations = 0;         // of one round; a multiplication and the addition of its result are two
  void (*run)(std::int64_t rounds) = nullptr;
};

// Those that this processor can run; of each name the fastest instruction only.
std::vector<ComputeCeiling> ComputeCeilings();

// Reads every byte once, in order. Requires: bytes is a multiple of 512.
void ReadInOrder(const std::byte* memory, std::size_t bytes);

}  // namespace skein::kernels
