// SPDX-License-Identifier: Apache-2.0
//
// Chooses the row kernels of a path.
#include "kernels/rows/rows.h"

#include "kernels/rows/rows_paths.h"

namespace skein::kernels {

const RowKernels& SelectRows(KernelPath path) {
#if defined(__x86_64__)
  switch (path) {
    case KernelPath::kAmx:
    case KernelPath::kAvx512Vnni:
      return RowsAvx512();
    case KernelPath::kAvx2:
      return RowsAvx2();
    case KernelPath::kRef:
      break;
  }
#else
  static_cast<void>(path);
#endif
  return RowsRef();
}

}  // namespace skein::kernels
