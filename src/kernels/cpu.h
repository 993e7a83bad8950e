// SPDX-License-Identifier: Apache-2.0
//
// What this processor and its operating system let us execute. Asked once, then constant; any thread may ask.
#pragma once

namespace skein::kernels {

struct CpuFeatures {
  bool avx2 = false;           // with FMA and F16C
  bool avx512 = false;         // F, BW, DQ, VL and VNNI
  bool avx512_bf16 = false;    // vdpbf16ps
  bool avx512_fp16 = false;
  bool avx512_vbmi = false;    // shuffles of bytes
  bool fast_bf16_dot = false;  // vdpbf16ps at the rate of FMAs; Intel's processors take four times as long
  bool prefetch_pays = false;  // its own prefetching leaves memory idle when few rows are multiplied: Intel's processors
  bool amx = false;            // tiles with bf16 and int8, permitted by the kernel for this process, and avx512_fp16
};

// The first call asks the Linux kernel for the permission to use tiles (arch_prctl), which then holds for every thread.
const CpuFeatures& Cpu();

}  // namespace skein::kernels
