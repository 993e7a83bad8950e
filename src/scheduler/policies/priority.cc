// SPDX-License-Identifier: Apache-2.0
//
// Ageing without a clock: both of two waiting requests grow older at the same pace, so who is ahead never changes, and
// the order is that of `arrival - priority * age`. Nobody waits for ever: a request of priority p is overtaken only by what
// arrives within (100 - p) * 30 s of it, at most 100 minutes, and from then on by nothing.
#include "scheduler/policies/priority.h"

#include <algorithm>

namespace skein::scheduler {
namespace {

std::int64_t LevelOf(const Candidate& candidate) {
  return std::clamp(candidate.priority, -kPriorityMax, kPriorityMax);
}

class Priority final : public Policy {
 public:
  std::string_view name() const override { return "priority"; }
  bool IsBefore(const Candidate& a, const Candidate& b) const override {
    const std::int64_t place_a = a.arrival_ns - LevelOf(a) * kPriorityAgeNs;
    const std::int64_t place_b = b.arrival_ns - LevelOf(b) * kPriorityAgeNs;
    return place_a != place_b ? place_a < place_b : a.arrival < b.arrival;
  }
  bool Outranks(const Candidate& a, const Candidate& b) const override {
    return LevelOf(a) > LevelOf(b) && IsBefore(a, b);
  }
};

}  // namespace

const Policy& PriorityPolicy() {
  static const Priority policy;
  return policy;
}

}  // namespace skein::scheduler
