// SPDX-License-Identifier: Apache-2.0
//
// Forecast predicts when each of the sequences there are will end if nobody else comes, by playing the scheduler's steps in
// strides: what does not change between two ends of prompts or answers is one product. The deadline policy refuses by it.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/step_cost.h"

namespace skein::scheduler {

struct ForecastSequence {
  std::int64_t position = 0;      // positions computed
  std::int64_t prompt_left = 0;   // known tokens to compute
  std::int64_t outputs_left = 0;  // tokens to generate, at most
  bool runs = false;              // has its blocks
  std::int64_t end_ns = 0;        // what is predicted
};

struct ForecastLimits {
  std::int64_t step_tokens = 0;
  std::int64_t step_target_ns = 0;
  std::int64_t sequences = 0;     // running at once
  std::int64_t places = 0;        // of the KV memory
};

// Fills end_ns. `sequences` stand in the order of service.
void Forecast(std::vector<ForecastSequence*>& sequences, const ForecastLimits& limits, const StepCost& cost,
              std::int64_t now_ns);

}  // namespace skein::scheduler
