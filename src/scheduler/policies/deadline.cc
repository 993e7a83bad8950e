// SPDX-License-Identifier: Apache-2.0
//
// Nobody waits for ever: a request with a deadline ends by then, one way or the other; one without is overtaken only by
// what has a deadline within a minute of its arrival. What runs is not driven out by what comes: admission by forecast
// (forecast.h) has already seen to it that all can make it, and computing again would spoil that.
#include "scheduler/policies/deadline.h"

namespace skein::scheduler {
namespace {

std::int64_t DueNs(const Candidate& candidate) {
  return candidate.deadline_ns != 0 ? candidate.deadline_ns : candidate.arrival_ns + kNoDeadlineNs;
}

class Deadline final : public Policy {
 public:
  std::string_view name() const override { return "deadline"; }
  bool IsBefore(const Candidate& a, const Candidate& b) const override {
    return DueNs(a) != DueNs(b) ? DueNs(a) < DueNs(b) : a.arrival < b.arrival;
  }
  bool RefusesLate() const override { return true; }
};

}  // namespace

const Policy& DeadlinePolicy() {
  static const Deadline policy;
  return policy;
}

}  // namespace skein::scheduler
