// SPDX-License-Identifier: Apache-2.0
//
// The logit kernels on AVX2 (logits_impl.h).
#include "kernels/logits/logits_impl.h"
#include "kernels/logits/logits_paths.h"

namespace skein::kernels {

const LogitKernels& LogitsAvx2() { return kLogitKernels; }

}  // namespace skein::kernels
