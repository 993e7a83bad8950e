// SPDX-License-Identifier: Apache-2.0
#include "scheduler/step_cost.h"

#include <random>

#include <gtest/gtest.h>

namespace skein::scheduler {
namespace {

// Deadlines and the planner would be computed from wrong shapes.
TEST(StepCostTest, CountsTokensKeysAndPairs) {
  StepPlan plan;
  plan.rows.push_back({.sequence = {1}, .first_position = 10, .tokens = std::vector<PlannedToken>(1), .output = Output::kSample});
  plan.rows.push_back({.sequence = {2}, .first_position = 4, .tokens = std::vector<PlannedToken>(3), .output = Output::kScore});
  plan.rows.push_back({.sequence = {3}, .first_position = 0, .tokens = std::vector<PlannedToken>(2)});
  EXPECT_EQ(plan.TokenCount(), 6);
  // Pairs: 11; 5 + 6 + 7; 1 + 2.
  EXPECT_EQ(ShapeOf(plan), (StepShape{.tokens = 6, .rows = 3, .outputs = 4, .keys = 11 + 7 + 2, .pairs = 32}));
}

// A batch would look as dear as its sequences one by one, and nobody would batch.
TEST(StepCostTest, WeightsArePaidOnce) {
  const StepCost cost{.step_ns = 1, .weights_ns = 1000, .token_ns = 10, .output_ns = 2, .row_ns = 3, .key_ns = 0, .pair_ns = 0};
  EXPECT_DOUBLE_EQ(cost.Predict({.tokens = 1, .rows = 1, .outputs = 1}), 1 + 1000 + 2 + 3);
  EXPECT_DOUBLE_EQ(cost.Predict({.tokens = 8, .rows = 8, .outputs = 8}), 1 + 1000 + 16 + 24);
  EXPECT_DOUBLE_EQ(cost.Predict({.tokens = 500, .rows = 1, .outputs = 1}), 1 + 5000 + 2 + 3);
}

// On any machine but the one the defaults are of, steps would be cut far too short or too long.
TEST(StepCostTest, LearnsAMachineFromItsSteps) {
  const StepCost machine{.step_ns = 200e3, .weights_ns = 40e6, .token_ns = 900e3, .output_ns = 100e3, .row_ns = 20e3,
                         .key_ns = 900, .pair_ns = 300};
  StepCost learned;
  std::minstd_rand random(1);
  const auto shape = [&] {
    const auto rows = static_cast<std::int64_t>(1 + random() % 32);
    const auto context = static_cast<std::int64_t>(100 + random() % 2000);
    const auto prompt = random() % 2 == 0 ? 0 : static_cast<std::int64_t>(random() % 512);
    return StepShape{.tokens = rows + prompt, .rows = rows, .outputs = rows, .keys = rows * context,
                     .pairs = rows * context + prompt * 500};
  };
  for (int step = 0; step < 2000; ++step) {
    const StepShape each = shape();
    learned.Learn(each, machine.Predict(each));
    if (step % 50 == 0) learned.Learn(each, 100 * machine.Predict(each));  // the machine was busy with something else
  }
  double error = 0;
  for (int i = 0; i < 200; ++i) {
    const StepShape each = shape();
    error += std::abs(learned.Predict(each) / machine.Predict(each) - 1) / 200;
  }
  EXPECT_LT(error, 0.15);
  // A few steps are enough for the right size; the defaults are off by more than half.
  StepCost early;
  for (int step = 0; step < 12; ++step) {
    const StepShape each = shape();
    early.Learn(each, machine.Predict(each));
  }
  double early_error = 0, default_error = 0;
  for (int i = 0; i < 200; ++i) {
    const StepShape each = shape();
    early_error += std::abs(early.Predict(each) / machine.Predict(each) - 1) / 200;
    default_error += std::abs(StepCost{}.Predict(each) / machine.Predict(each) - 1) / 200;
  }
  EXPECT_GT(default_error, 0.6);
  EXPECT_LT(early_error, 0.4);
  learned.Learn({.tokens = 1, .rows = 1}, 0);
  learned.Learn({}, -5);
  EXPECT_GT(learned.Predict({.tokens = 1}), 0);
}

}  // namespace
}  // namespace skein::scheduler
