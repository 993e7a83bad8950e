// SPDX-License-Identifier: Apache-2.0
//
// First come, first served: the latest arrival gives way.
#pragma once

#include "scheduler/policies/policy.h"

namespace skein::scheduler {

const Policy& FcfsPolicy();

}  // namespace skein::scheduler
