// SPDX-License-Identifier: Apache-2.0
//
// attention on AVX-512 without bf16 instructions: bf16p (also used with int8g32) and exact.
#include "kernels/attention/attention_paths.h"
#include "kernels/attention/attention_vector_impl.h"

namespace skein::kernels {

AttentionKernel AttentionAvx512(Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kExact) return KernelOf<VectorEngine<SinglesByFma, 8, 2, true>>("avx512/exact");
  return KernelOf<VectorEngine<PairsByFma, 8, 2, false>>("avx512/bf16p");
}

}  // namespace skein::kernels
