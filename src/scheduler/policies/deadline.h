// SPDX-License-Identifier: Apache-2.0
//
// Earliest deadline first, and what cannot make its deadline is refused when it comes.
#pragma once

#include <cstdint>

#include "scheduler/policies/policy.h"

namespace skein::scheduler {

// A request without a deadline is served as if it had one so long after its arrival; it is never refused and never ended.
inline constexpr std::int64_t kNoDeadlineNs = 60'000'000'000;

const Policy& DeadlinePolicy();

}  // namespace skein::scheduler
