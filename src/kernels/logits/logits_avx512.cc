// SPDX-License-Identifier: Apache-2.0
//
// The logit kernels on AVX-512 (logits_impl.h).
#include "kernels/logits/logits_impl.h"
#include "kernels/logits/logits_paths.h"

namespace skein::kernels {

const LogitKernels& LogitsAvx512() { return kLogitKernels; }

}  // namespace skein::kernels
