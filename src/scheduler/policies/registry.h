// SPDX-License-Identifier: Apache-2.0
//
// The policies by name, for `--policy` and for tests that run all of them.
#pragma once

#include <span>
#include <string_view>

#include "base/status.h"
#include "scheduler/policies/policy.h"

namespace skein::scheduler {

std::span<const Policy* const> Policies();  // sorted by name
// Errors: kInvalidArgument, naming the ones there are.
Result<const Policy*> FindPolicy(std::string_view name);

}  // namespace skein::scheduler
