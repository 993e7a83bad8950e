// SPDX-License-Identifier: Apache-2.0
//
// Packing on AVX-512.
#include "kernels/linear/pack_impl.h"

namespace skein::kernels {

void PackAvx512(const PanelSource& source, std::byte* into) { PackByVectors(source, into); }

}  // namespace skein::kernels
