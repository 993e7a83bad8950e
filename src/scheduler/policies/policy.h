// SPDX-License-Identifier: Apache-2.0
//
// Policy says in which order sequences are served. It is asked for one thing, an order; everything else follows from
// it: who is admitted first, whose prompt goes on first when the budget is short, and who gives way when memory runs
// out (whoever would be served last). What else a policy may wish has a default that wishes nothing.
//
// Each policy states in its file for how long a sequence can wait, and the simulation tests hold it to that.
//
// Thread rule: const and stateless; shared by all schedulers of a process.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/ids.h"

namespace skein::scheduler {

// What a policy may look at.
struct Candidate {
  SequenceId sequence;
  std::uint64_t arrival = 0;       // counts Adds; kept over preemption
  std::int64_t arrival_ns = 0;
  std::int32_t priority = 0;       // higher first
  std::int64_t deadline_ns = 0;    // 0: none
  std::int32_t tokens = 0;         // known so far
  std::int32_t tokens_left = 0;    // to generate, at most
  std::uint64_t service = 0;       // what the tenant has had (tenants.h); changes between steps and admissions
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string_view name() const = 0;
  // Whether `a` is served before `b`. A strict total order that does not change while neither of the two does.
  virtual bool IsBefore(const Candidate& a, const Candidate& b) const = 0;

  // Whether the waiting `a` may take the place of the running `b` when there is no room for both. Implies that `a` is
  // before `b`, so that no two can drive each other out.
  virtual bool Outranks(const Candidate& /*a*/, const Candidate& /*b*/) const { return false; }
  // Whether a request is refused when it comes, if it cannot make its deadline or would make another one late.
  virtual bool RefusesLate() const { return false; }
  // Whether the order depends on `service`.
  virtual bool FollowsService() const { return false; }
};

}  // namespace skein::scheduler
