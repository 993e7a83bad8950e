// SPDX-License-Identifier: Apache-2.0
//
// Virtual token counters (Sheng et al., 2024; tenants.h). Nobody waits for ever: whoever waits has had least or will have,
// since only those that are served have more. While two tenants both have requests waiting, what they have had differs by
// at most twice the larger of one longest prompt and two tokens for each place of the KV memory.
#include "scheduler/policies/fair.h"

namespace skein::scheduler {
namespace {

class Fair final : public Policy {
 public:
  std::string_view name() const override { return "fair"; }
  bool IsBefore(const Candidate& a, const Candidate& b) const override {
    return a.service != b.service ? a.service < b.service : a.arrival < b.arrival;
  }
  bool FollowsService() const override { return true; }
};

}  // namespace

const Policy& FairPolicy() {
  static const Fair policy;
  return policy;
}

}  // namespace skein::scheduler
