// SPDX-License-Identifier: Apache-2.0
//
// bf16t on AMX tiles: weights are made bf16 in first-level cache and multiplied by tdpbf16ps, for any number of rows.
#pragma once

#include "kernels/linear/linear_task.h"

namespace skein::kernels {

void LinearAmxBf16TW4(const LinearTask& task);
void LinearAmxBf16TW4Min(const LinearTask& task);
void LinearAmxBf16TW8(const LinearTask& task);
void LinearAmxBf16TBf16(const LinearTask& task);

std::size_t LinearAmxScratchBytes();

}  // namespace skein::kernels
