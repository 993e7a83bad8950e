// SPDX-License-Identifier: Apache-2.0
//
// The formula of step_cost.h. A few multiplications for each row, no allocation: the engine may ask for every plan.
#include "scheduler/step_cost.h"

#include <algorithm>

namespace skein::scheduler {

StepShape WithChunk(StepShape shape, std::int64_t position, std::int64_t tokens) {
  shape.tokens += tokens;
  shape.rows += 1;
  shape.keys += position + tokens;
  shape.pairs += tokens * position + tokens * (tokens + 1) / 2;
  return shape;
}

StepShape ShapeOf(const StepPlan& plan) {
  StepShape shape;
  for (const PlanRow& row : plan.rows) {
    const auto tokens = static_cast<std::int64_t>(row.tokens.size());
    shape = WithChunk(shape, row.first_position, tokens);
    if (row.output == Output::kSample) shape.outputs += 1;
    if (row.output == Output::kScore || row.output == Output::kLogits) shape.outputs += tokens;
  }
  return shape;
}

namespace {

double At(double coefficient, std::int64_t count) { return coefficient * static_cast<double>(count); }

// What of the difference is learned from one step: all of the first, a half of the second, and so on down to this.
constexpr double kRate = 0.2;
// How far off a measurement is believed to be: a machine may be twenty times as slow as the defaults say, but not become
// so from one step to the next.
constexpr double kFirstRatio = 20, kRatio = 2;
// A coefficient shrinks at most to this part in one step; it stays positive.
constexpr double kFactorMin = 0.1;

}  // namespace

double StepCost::Predict(const StepShape& shape) const {
  return step_ns + std::max(weights_ns, At(token_ns, shape.tokens)) + At(output_ns, shape.outputs) +
         At(row_ns, shape.rows) + At(key_ns, shape.keys) + At(pair_ns, shape.pairs);
}

void StepCost::Learn(const StepShape& shape, double measured_ns) {
  const double predicted = Predict(shape);
  if (!(measured_ns > 0) || !(predicted > 0)) return;
  const bool by_tokens = At(token_ns, shape.tokens) > weights_ns;  // the other one of the two had no part in it
  struct Term {
    double* coefficient;
    double share;
  };
  const Term terms[] = {{&step_ns, step_ns / predicted},
                        {&weights_ns, by_tokens ? 0 : weights_ns / predicted},
                        {&token_ns, by_tokens ? At(token_ns, shape.tokens) / predicted : 0},
                        {&output_ns, At(output_ns, shape.outputs) / predicted},
                        {&row_ns, At(row_ns, shape.rows) / predicted},
                        {&key_ns, At(key_ns, shape.keys) / predicted},
                        {&pair_ns, At(pair_ns, shape.pairs) / predicted}};
  double squares = 0;
  for (const Term& term : terms) squares += term.share * term.share;
  const double rate = std::max(kRate, 1 / static_cast<double>(1 + steps_learned));
  const double ratio = rate > kRate ? kFirstRatio : kRatio;
  const double error = std::clamp(measured_ns / predicted, 1 / ratio, ratio) - 1;
  for (const Term& term : terms) *term.coefficient *= std::max(kFactorMin, 1 + rate * error * term.share / squares);
  ++steps_learned;
}

}  // namespace skein::scheduler
