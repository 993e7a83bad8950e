// SPDX-License-Identifier: Apache-2.0
//
// The linear kernels on vector instructions: AVX-512 with VNNI, AVX-512 with BF16, AVX2. Template arguments are spelled
// out where the functions are defined (linear_avx512.cc, linear_avx512_bf16.cc, linear_avx2.cc, linear_vnni.cc).
#pragma once

#include "kernels/linear/linear_task.h"

namespace skein::kernels {

// fp32 FMAs, for every arithmetic but int8g32.
template <WeightFormat format, Arithmetic arithmetic>
void LinearAvx512(const LinearTask& task);
template <WeightFormat format, Arithmetic arithmetic>
void LinearAvx2(const LinearTask& task);

// bf16p by vdpbf16ps.
template <WeightFormat format>
void LinearAvx512Bf16P(const LinearTask& task);

// int8g32.
template <WeightFormat format>
void LinearVnniInt8G32(const LinearTask& task);
template <WeightFormat format>
void LinearAvx2Int8G32(const LinearTask& task);

inline constexpr std::size_t kVectorScratchBytes = std::size_t{160} << 10;

}  // namespace skein::kernels
