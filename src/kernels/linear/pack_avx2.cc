// SPDX-License-Identifier: Apache-2.0
//
// Packing on AVX2 with F16C.
#include "kernels/linear/pack_impl.h"

namespace skein::kernels {

void PackAvx2(const PanelSource& source, std::byte* into) { PackByVectors(source, into); }

}  // namespace skein::kernels
