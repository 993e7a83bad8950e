// SPDX-License-Identifier: Apache-2.0
#include "scheduler/step_budget.h"

#include <gtest/gtest.h>

namespace skein::scheduler {
namespace {

constexpr StepCost kCost{.step_ns = 0, .weights_ns = 10e6, .token_ns = 1e6, .output_ns = 0, .row_ns = 0, .key_ns = 0, .pair_ns = 0};

StepShape Answers(std::int64_t count) { return {.tokens = count, .rows = count, .outputs = count}; }

// A long prompt would make everybody's answer stutter, or answers would make prompts wait for ever.
TEST(StepBudgetTest, AStepWithAnswersKeepsToItsTargetInWholeChunks) {
  // Two answers take 10 ms; with 448 tokens more it is 450 ms, with 512 it would be 514.
  EXPECT_EQ(PromptBudget(kCost, Answers(2), 0, 2048, 500'000'000), 448);
  // The target is less than four times what 100 answers take: 300 tokens fit into that, in chunks 256.
  EXPECT_EQ(PromptBudget(kCost, Answers(100), 0, 2048, 1'000'000), 256);
  StepCost dear = kCost;
  dear.token_ns = 5e6;
  EXPECT_EQ(PromptBudget(dear, Answers(2), 0, 2048, 1'000'000), 16);  // not even one block: the least, not nothing
  EXPECT_EQ(PromptBudget(kCost, Answers(2), 0, 2048, 120'000'000), 112);
  EXPECT_EQ(PromptBudget(kCost, Answers(2), 0, 100, 500'000'000), 96);
  EXPECT_EQ(PromptBudget(kCost, Answers(2), 0, 5, 500'000'000), 5);
}

// Prompts would be computed slowly though nobody is disturbed by them, and a fixed budget would not be fixed.
TEST(StepBudgetTest, WithoutAnswersOrTargetNothingIsCut) {
  EXPECT_EQ(PromptBudget(kCost, {}, 0, 2048, 1'000'000), 2048);
  EXPECT_EQ(PromptBudget(kCost, Answers(2), 0, 2047, 0), 2047);
}

// Chunks deep in a long prompt would take many times as long as those at its beginning.
TEST(StepBudgetTest, DeepChunksAreShorter) {
  StepCost cost = kCost;
  cost.pair_ns = 100;
  EXPECT_LT(PromptBudget(cost, Answers(2), 20000, 2048, 500'000'000), PromptBudget(cost, Answers(2), 0, 2048, 500'000'000));
}

// A pipe of stages would be fed crumbs, each of which costs as much as a meal, or one stage would have all.
TEST(StepBudgetTest, PartsOfPromptsAreEqualAndNoSmallerThanTheWeightsAreWorth) {
  const StepCost cost{.weights_ns = 4e6, .token_ns = 1e5};  // 40 tokens
  EXPECT_EQ(PromptPart(cost, 0), 48);
  EXPECT_EQ(PromptPart(cost, 40), 48);
  EXPECT_EQ(PromptPart(cost, 49), 64);
  EXPECT_EQ(PromptPart(cost, 512), 512);
  EXPECT_EQ(PromptPart({.weights_ns = 1e12, .token_ns = 1}, 1), 128);  // learned from something strange
}

}  // namespace
}  // namespace skein::scheduler
