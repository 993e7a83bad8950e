// SPDX-License-Identifier: Apache-2.0
//
// The row kernels on AVX-512 (rows_impl.h).
#include "kernels/rows/rows_impl.h"
#include "kernels/rows/rows_paths.h"

namespace skein::kernels {

const RowKernels& RowsAvx512() { return kRowKernels; }

}  // namespace skein::kernels
