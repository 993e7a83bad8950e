// SPDX-License-Identifier: Apache-2.0
//
// The formula of step_cost.h. A few multiplications for each row, no allocation: the engine may ask for every plan.
#include "scheduler/step_cost.h"

#include <algorithm>

namespace skein::scheduler {

StepShape ShapeOf(const StepPlan& plan) {
  StepShape shape;
  for (const PlanRow& row : plan.rows) {
    const auto tokens = static_cast<std::int64_t>(row.tokens.size());
    shape.tokens += tokens;
    shape.rows += 1;
    shape.keys += row.first_position + tokens;
    shape.pairs += tokens * row.first_position + tokens * (tokens + 1) / 2;
    if (row.output == Output::kSample) shape.outputs += 1;
    if (row.output == Output::kScore || row.output == Output::kLogits) shape.outputs += tokens;
  }
  return shape;
}

double StepCost::Predict(const StepShape& shape) const {
  const auto at = [](double coefficient, std::int64_t count) { return coefficient * static_cast<double>(count); };
  return step_ns + std::max(weights_ns, at(token_ns, shape.tokens)) + at(output_ns, shape.outputs) +
         at(row_ns, shape.rows) + at(key_ns, shape.keys) + at(pair_ns, shape.pairs);
}

}  // namespace skein::scheduler
