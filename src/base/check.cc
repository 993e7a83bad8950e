// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace skein {

void CheckFailed(const char* file, int line, const char* fact) {
  std::fprintf(stderr, "skein: broken invariant at %s:%d: %s\n", file, line, fact);
  std::abort();
}

}  // namespace skein
