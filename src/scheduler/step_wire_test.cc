// SPDX-License-Identifier: Apache-2.0
#include "scheduler/step_wire.h"

#include <random>

#include <gtest/gtest.h>

#include "base/wire.h"
#include "scheduler/step_fields.h"

namespace skein::scheduler {
namespace {

StepPlan FullPlan() {
  StepPlan plan;
  plan.step = {77};
  plan.starts.push_back({.sequence = {5},
                         .sampling = {.temperature = 0.7f,
                                      .top_k = 40,
                                      .top_p = 0.9f,
                                      .min_p = 0.05f,
                                      .repetition_penalty = 1.1f,
                                      .frequency_penalty = 0.2f,
                                      .presence_penalty = -0.3f,
                                      .seed = 0xFFFFFFFFFFFFFFFF,
                                      .bias = {{3, -1.5f}, {9, 100.0f}}},
                         .choice = 2,
                         .prompt = {1, 2, 3},
                         .generated = {4},
                         .prompt_tokens = 3,
                         .min_tokens = 4,
                         .stop_tokens = {2}});
  plan.releases = {{1}, {2}};
  plan.changes.push_back({.sequence = {5}, .keep = 1, .append = {{{7}, 3}, {{20}, 1}}});
  plan.copies.push_back({.from = {1}, .to = {2}});
  plan.rows.push_back({.sequence = {5},
                       .first_position = 4,
                       .tokens = {{.literal = 9}, {.row = 3, .step = {76}}},
                       .adapter = 1,
                       .output = Output::kScore,
                       .top = 5,
                       .logprob = true,
                       .targets = {9, 8},
                       .draft = 1});
  plan.masks.push_back({.row = 0, .allowed = {1, 0xF000000000000000}});
  return plan;
}

StepResult FullResult() {
  StepResult result;
  result.step = {77};
  result.rows.push_back({.row = 0, .scored = {{.token = 4, .logprob = -0.5f, .top = {{4, -0.5f}, {1, -2.0f}}}}});
  result.rows.push_back({.row = 2, .logits = {1.0f, -0.0f, 3e-45f}, .hidden = {0.5f}});
  result.compute_ns = 123456789;
  result.error = "a rank is gone";
  return result;
}

// Ranks in another process would compute another step than the scheduler planned.
TEST(StepWireTest, PlansResultsAndSequencesRoundTrip) {
  const auto plan = DecodePlan(EncodePlan(FullPlan()));
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(*plan, FullPlan());
  const auto result = DecodeResult(EncodeResult(FullResult()));
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(*result, FullResult());
  SequenceState state{.sequence = {8}, .tokens = {1, 2, 3}, .prompt_tokens = 2, .max_tokens = 9, .min_tokens = 1};
  state.choice = 3;
  state.stop_tokens = {2};
  state.ignore_stop_tokens = true;
  state.logprobs = true;
  state.top_logprobs = 4;
  state.prompt_output = PromptOutput::kPooled;
  state.priority = -2;
  state.deadline_ns = 55;
  state.tenant = "tenant";
  state.cache_salt = "salt";
  const auto decoded = DecodeSequence(EncodeSequence(state));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, state);
  EXPECT_EQ(*DecodePlan(EncodePlan({})), StepPlan{});
  EXPECT_EQ(*DecodeResult(EncodeResult({})), StepResult{});
}

// A plan taken for a result, or a damaged one taken for whole, would be computed.
TEST(StepWireTest, OtherKindsAndDamageAreErrors) {
  const auto plan = EncodePlan(FullPlan());
  EXPECT_FALSE(DecodeResult(plan).ok());
  EXPECT_FALSE(DecodePlan(EncodeResult(FullResult())).ok());
  EXPECT_FALSE(DecodePlan({}).ok());
  for (std::size_t i = 0; i < plan.size(); ++i) {
    EXPECT_FALSE(DecodePlan(std::span(plan).first(i)).ok());
    auto damaged = plan;
    damaged[i] ^= std::byte{1};
    EXPECT_FALSE(DecodePlan(damaged).ok());
  }
}

// A hostile peer could crash a rank with a frame whose checksum is right.
TEST(StepWireTest, HostileBodiesAreErrorsOrValues) {
  std::minstd_rand random(3);
  const auto frame = EncodePlan(FullPlan());
  const auto kind = wire::PeekFrame(frame);
  ASSERT_TRUE(kind.ok());
  wire::Writer writer;
  writer(FullPlan());
  int values = 0;
  for (int round = 0; round < 20000; ++round) {
    auto body = writer.bytes();
    for (std::uint64_t i = 0, changes = 1 + random() % 3; i < changes; ++i) {
      body[random() % body.size()] = static_cast<std::byte>(random() % 4 == 0 ? 255 : random() % 256);
    }
    values += DecodePlan(wire::MakeFrame(*kind, body)).ok() ? 1 : 0;
  }
  EXPECT_GT(values, 0);
}

}  // namespace
}  // namespace skein::scheduler
