// SPDX-License-Identifier: Apache-2.0
//
// attention on AVX2 with FMA: bf16p (also used with int8g32) and exact. Blocks of 4 rows by one vector of two registers.
#include "kernels/attention/attention_paths.h"
#include "kernels/attention/attention_vector_impl.h"

namespace skein::kernels {

AttentionKernel AttentionAvx2(Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kExact) return KernelOf<VectorEngine<SinglesByFma, 4, 1, true>>("avx2/exact");
  return KernelOf<VectorEngine<PairsByFma, 4, 1, false>>("avx2/bf16p");
}

}  // namespace skein::kernels
