// SPDX-License-Identifier: Apache-2.0
//
// attention on AVX-512 with shuffles of bytes, which INT8 and FP8 keys and values are widened with, and without bf16
// instructions, or where those are slow: bf16p (also used with int8g32).
#include "kernels/attention/attention_paths.h"
#include "kernels/attention/attention_vector_impl.h"

namespace skein::kernels {

AttentionKernel AttentionAvx512Vbmi() { return KernelOf<VectorEngine<PairsByFma, 8, 2, false>>("avx512vbmi/bf16p"); }

}  // namespace skein::kernels
