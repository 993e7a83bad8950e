// SPDX-License-Identifier: Apache-2.0
//
// Sums over a plan.
#include "scheduler/step_plan.h"

namespace skein::scheduler {

std::int64_t StepPlan::TokenCount() const {
  std::int64_t count = 0;
  for (const PlanRow& row : rows) count += static_cast<std::int64_t>(row.tokens.size());
  return count;
}

}  // namespace skein::scheduler
