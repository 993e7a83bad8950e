// SPDX-License-Identifier: Apache-2.0
//
// SKEIN_CHECK states a fact that only our own code could break; it stays in release builds and ends the process with
// the place and the fact. What the world can cause is a Status (base/status.h), never a check. SKEIN_DCHECK is for
// hot loops and is compiled out of release builds.
#pragma once

namespace skein {

// Prints the broken fact and its place, and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* fact);

}  // namespace skein

#define SKEIN_CHECK(fact) \
  (static_cast<bool>(fact) ? static_cast<void>(0) : ::skein::CheckFailed(__FILE__, __LINE__, #fact))
#ifdef SKEIN_DEBUG_CHECKS
#define SKEIN_DCHECK(fact) SKEIN_CHECK(fact)
#else
#define SKEIN_DCHECK(fact) static_cast<void>(0)
#endif
