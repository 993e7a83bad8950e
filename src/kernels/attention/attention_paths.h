// SPDX-License-Identifier: Apache-2.0
//
// The attention kernels of each path, for attention.cc, which chooses. A path's functions may run only where the
// processor has its instructions.
#pragma once

#include "kernels/attention/attention.h"

namespace skein::kernels {

AttentionKernel AttentionRef(Arithmetic arithmetic);
AttentionKernel AttentionAvx2(Arithmetic arithmetic);        // not bf16t
AttentionKernel AttentionAvx512(Arithmetic arithmetic);      // not bf16t
AttentionKernel AttentionAvx512Vbmi();                       // bf16p and int8g32, widens bytes by tables
AttentionKernel AttentionAvx512Bf16();                       // the same with vdpbf16ps
AttentionKernel AttentionAmx();                              // bf16t

}  // namespace skein::kernels
