// SPDX-License-Identifier: Apache-2.0
//
// Chooses the logit kernels of a path.
#include "kernels/logits/logits.h"

#include "kernels/logits/logits_paths.h"

namespace skein::kernels {

const LogitKernels& SelectLogits(KernelPath path) {
#if defined(__x86_64__)
  switch (path) {
    case KernelPath::kAmx:
    case KernelPath::kAvx512Vnni:
      return LogitsAvx512();
    case KernelPath::kAvx2:
      return LogitsAvx2();
    case KernelPath::kRef:
      break;
  }
#else
  static_cast<void>(path);
#endif
  return LogitsRef();
}

}  // namespace skein::kernels
