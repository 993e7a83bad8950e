// SPDX-License-Identifier: Apache-2.0
//
// attention on AVX-512 with vdpbf16ps and shuffles of bytes: bf16p (also used with int8g32).
#include "kernels/attention/attention_paths.h"
#include "kernels/attention/attention_vector_impl.h"

namespace skein::kernels {

AttentionKernel AttentionAvx512Bf16() { return KernelOf<VectorEngine<PairsByDot, 8, 2, false>>("avx512bf16/bf16p"); }

}  // namespace skein::kernels
