// SPDX-License-Identifier: Apache-2.0
//
// The row kernels of each path, for rows.cc, which chooses. A path's functions may run only where the processor has
// its instructions.
#pragma once

#include "kernels/rows/rows.h"

namespace skein::kernels {

const RowKernels& RowsRef();
const RowKernels& RowsAvx2();
const RowKernels& RowsAvx512();

}  // namespace skein::kernels
