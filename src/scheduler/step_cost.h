// SPDX-License-Identifier: Apache-2.0
//
// step_cost: the one formula that predicts how long a step takes. Deadline policies, the simulated executor, the
// engine's self-check and the planner use it.
//
//   time = step + max(weights, token * tokens) + output * outputs + row * rows + key * keys + pair * pairs
//
// Weights are streamed from memory once for each step, however many tokens share them, or the arithmetic of the tokens
// takes longer than that. `keys` counts cached positions that are read, once for each row (memory of attention);
// `pairs` counts (token, key) pairs (its arithmetic).
#pragma once

#include <cstdint>

#include "scheduler/step_plan.h"

namespace skein::scheduler {

// What of a step costs time.
struct StepShape {
  std::int64_t tokens = 0;
  std::int64_t rows = 0;
  std::int64_t outputs = 0;  // positions that need logits
  std::int64_t keys = 0;
  std::int64_t pairs = 0;
  friend bool operator==(const StepShape&, const StepShape&) = default;
};

StepShape ShapeOf(const StepPlan& plan);
// The step with one row more: `tokens` from `position` on. Outputs are the caller's to add.
StepShape WithChunk(StepShape shape, std::int64_t position, std::int64_t tokens);

// Coefficients in nanoseconds. The defaults are those of a small model (135M weights) on a few cores; measured ones
// replace them, and Learn keeps them true.
struct StepCost {
  double step_ns = 50e3;
  double weights_ns = 3e6;
  double token_ns = 200e3;
  double output_ns = 500e3;
  double row_ns = 5e3;
  double key_ns = 100;
  double pair_ns = 50;
  std::int64_t steps_learned = 0;

  double Predict(const StepShape& shape) const;
  // Moves the coefficients towards a measurement. Each moves by its share of the prediction, so those that the step had
  // most of learn most from it. The first steps are believed at once; later one that went wrong (a page fault, another
  // program) moves them by a fifth at most.
  void Learn(const StepShape& shape, double measured_ns);
};

}  // namespace skein::scheduler
