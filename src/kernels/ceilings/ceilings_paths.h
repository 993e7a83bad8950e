// SPDX-License-Identifier: Apache-2.0
//
// The loops of each instruction set, for ceilings.cc, which chooses. They may run only where the processor has the
// instructions in their names.
#pragma once

#include "kernels/ceilings/ceilings.h"

namespace skein::kernels {

ComputeCeiling CeilingAvx2Fp32();
ComputeCeiling CeilingAvx2Int8();
ComputeCeiling CeilingAvx512Fp32();
ComputeCeiling CeilingAvx512Int8();
ComputeCeiling CeilingAvx512Bf16();
ComputeCeiling CeilingAmxBf16();
void ReadInOrderAvx2(const std::byte* memory, std::size_t bytes);
void ReadInOrderAvx512(const std::byte* memory, std::size_t bytes);

}  // namespace skein::kernels
