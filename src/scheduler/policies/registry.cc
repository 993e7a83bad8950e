// SPDX-License-Identifier: Apache-2.0
//
// One sorted line for each policy.
#include "scheduler/policies/registry.h"

#include <array>
#include <string>

#include <fmt/format.h>

#include "scheduler/policies/deadline.h"
#include "scheduler/policies/fair.h"
#include "scheduler/policies/fcfs.h"
#include "scheduler/policies/priority.h"

namespace skein::scheduler {

std::span<const Policy* const> Policies() {
  static const std::array policies{
      &DeadlinePolicy(),
      &FairPolicy(),
      &FcfsPolicy(),
      &PriorityPolicy(),
  };
  return policies;
}

Result<const Policy*> FindPolicy(std::string_view name) {
  std::string names;
  for (const Policy* policy : Policies()) {
    if (policy->name() == name) return policy;
    names += names.empty() ? "" : ", ";
    names += policy->name();
  }
  return InvalidArgument(fmt::format("there is no policy '{}'; choose from: {}", name, names), "policy");
}

}  // namespace skein::scheduler
