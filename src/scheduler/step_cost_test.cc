// SPDX-License-Identifier: Apache-2.0
#include "scheduler/step_cost.h"

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

}  // namespace
}  // namespace skein::scheduler
