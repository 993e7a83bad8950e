// SPDX-License-Identifier: Apache-2.0
//
// A fair share of computed tokens for each tenant: the one that has had least is served first.
#pragma once

#include "scheduler/policies/policy.h"

namespace skein::scheduler {

const Policy& FairPolicy();

}  // namespace skein::scheduler
