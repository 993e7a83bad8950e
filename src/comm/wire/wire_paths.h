// SPDX-License-Identifier: Apache-2.0
//
// The wire kernels of each path, for wire.cc, which chooses. A path's functions may run only where the processor has
// its instructions.
#pragma once

#include "comm/wire/wire.h"

namespace skein::comm {

const WireKernels& WireRef();
const WireKernels& WireAvx2();
const WireKernels& WireAvx512();
const WireKernels& WireAvx512Bf16();

}  // namespace skein::comm
