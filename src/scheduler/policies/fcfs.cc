// SPDX-License-Identifier: Apache-2.0
//
// Order of arrival. Nobody waits for ever: whoever came first always goes on, since all others give way to it.
#include "scheduler/policies/fcfs.h"

namespace skein::scheduler {
namespace {

class Fcfs final : public Policy {
 public:
  std::string_view name() const override { return "fcfs"; }
  bool IsBefore(const Candidate& a, const Candidate& b) const override { return a.arrival < b.arrival; }
};

}  // namespace

const Policy& FcfsPolicy() {
  static const Fcfs policy;
  return policy;
}

}  // namespace skein::scheduler
