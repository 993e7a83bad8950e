// SPDX-License-Identifier: Apache-2.0
//
// Executor makes a step happen. The mesh executor computes it with the model; the simulated one only predicts how long
// it would take. The engine knows no difference.
//
// Thread rule: Submit and Wait are called by the engine thread only. Several plans may be in flight; results come in the
// order of submission.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "scheduler/step_plan.h"

namespace skein::engine {

// What the scheduler must know of what stands behind an executor.
struct ExecutorLimits {
  std::int32_t vocabulary = 0;
  std::int32_t context = 0;            // longest sequence
  std::uint32_t blocks = 0;            // places of the KV store
  std::int32_t block_tokens = 0;       // tokens in a block
  std::int32_t step_tokens = 0;        // tokens in one step, at most
  std::int32_t step_outputs = 0;       // positions of one step whose logits can be wanted, at most
  std::int32_t plans_in_flight = 1;    // how many Submits may precede a Wait
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual const ExecutorLimits& limits() const = 0;
  // Takes a plan. Requires: it keeps to limits(), fewer than plans_in_flight plans wait.
  virtual void Submit(const scheduler::StepPlan& plan) = 0;
  // The result of the oldest plan submitted; blocks until it is there.
  virtual scheduler::StepResult Wait() = 0;
  // Gives a result's storage back, for an executor that would rather not ask for memory in every step.
  virtual void Recycle(scheduler::StepResult /*result*/) {}
};

}  // namespace skein::engine
