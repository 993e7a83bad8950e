// SPDX-License-Identifier: Apache-2.0
//
// Pause: what a loop does that waits for another core, so that it costs little and leaves the core to its sibling.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace skein::kernels {

inline void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace skein::kernels
