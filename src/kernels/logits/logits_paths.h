// SPDX-License-Identifier: Apache-2.0
//
// The logit kernels of each path, for logits.cc, which chooses. A path's functions may run only where the processor has
// its instructions.
#pragma once

#include "kernels/logits/logits.h"

namespace skein::kernels {

const LogitKernels& LogitsRef();
const LogitKernels& LogitsAvx2();
const LogitKernels& LogitsAvx512();

}  // namespace skein::kernels
