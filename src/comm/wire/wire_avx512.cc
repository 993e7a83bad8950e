// SPDX-License-Identifier: Apache-2.0
//
// The wire kernels on AVX-512 (wire_impl.h).
#include "comm/wire/wire_impl.h"
#include "comm/wire/wire_paths.h"

namespace skein::comm {

const WireKernels& WireAvx512() { return kWireKernels; }

}  // namespace skein::comm
