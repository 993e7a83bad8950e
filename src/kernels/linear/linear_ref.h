// SPDX-License-Identifier: Apache-2.0
//
// The reference kernels: the definition of every arithmetic in plain loops. Never optimised.
#pragma once

#include "kernels/linear/linear_task.h"

namespace skein::kernels {

// All formats; the task says which. Requires: HasArithmetic(task.format, arithmetic).
void LinearRefInt8G32(const LinearTask& task);
void LinearRefBf16T(const LinearTask& task);
void LinearRefBf16P(const LinearTask& task);
void LinearRefExact(const LinearTask& task);

// bf16t's weight from its fp16 value: sign and mantissa rounded half away from zero, exponent rebiased.
std::uint16_t Bf16TFromHalf(std::uint16_t half);

}  // namespace skein::kernels
