// SPDX-License-Identifier: Apache-2.0
//
// Higher priorities first, and they take the blocks of lower ones when there is no room for both.
#pragma once

#include <cstdint>

#include "scheduler/policies/policy.h"

namespace skein::scheduler {

// One level of priority is worth so much waiting: of two requests, the one of a level less goes first when it came so
// much earlier.
inline constexpr std::int64_t kPriorityAgeNs = 30'000'000'000;
inline constexpr std::int32_t kPriorityMax = 100;  // levels beyond ±100 count as ±100

const Policy& PriorityPolicy();

}  // namespace skein::scheduler
