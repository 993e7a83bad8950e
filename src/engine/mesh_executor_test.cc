// SPDX-License-Identifier: Apache-2.0
//
// If these fail, tokens come from other logits than the model's, or a plan that makes no sense ends the process instead of
// its step.
#include "engine/mesh_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/tiny_model_testing.h"

namespace skein::engine {
namespace {

using scheduler::Output;
using scheduler::PlannedToken;
using scheduler::PlanRow;
using scheduler::StepPlan;
using scheduler::StepResult;

constexpr int kVocabulary = 80;

std::vector<PlannedToken> Planned(const std::vector<TokenId>& tokens) {
  std::vector<PlannedToken> planned;
  for (const TokenId token : tokens) planned.push_back({.literal = token});
  return planned;
}

class MeshExecutorTest : public testing::Test {
 protected:
  MeshExecutorTest() : file_({}), pool_(2) {
    auto model = model::Model::Load(file_, {}, pool_);
    SKEIN_CHECK(model.ok());
    model_ = std::move(model).value();
    auto executor = MeshExecutor::Create(*model_, pool_, {.kv_type = kernels::KvType::kF32, .frames = 8, .context = 256,
                                                          .step_tokens = 96, .step_outputs = 16}, clock_);
    SKEIN_CHECK(executor.ok());
    executor_ = std::move(executor).value();
  }

  // A plan whose first row starts sequence `id` with `tokens` in two frames from `frame` on.
  StepPlan Start(std::uint64_t id, const std::vector<TokenId>& tokens, Output output, std::uint32_t frame = 0) {
    StepPlan plan;
    plan.step = {++step_};
    scheduler::SequenceStart start;
    start.sequence = {id};
    start.sampling.temperature = 0;
    start.prompt_tokens = static_cast<std::int32_t>(tokens.size());
    plan.starts.push_back(start);
    plan.changes.push_back({.sequence = {id}, .keep = 0, .append = {{{4 * frame}, 8}}});
    plan.rows.push_back({.sequence = {id}, .first_position = 0, .tokens = Planned(tokens), .output = output});
    return plan;
  }
  StepPlan Next(std::uint64_t id, int position, PlannedToken token) {
    StepPlan plan;
    plan.step = {++step_};
    plan.rows.push_back({.sequence = {id}, .first_position = position, .tokens = {token}, .output = Output::kSample, .logprob = true});
    return plan;
  }
  StepResult Execute(const StepPlan& plan) {
    executor_->Submit(plan);
    return executor_->Wait();
  }

  model::TinyModel file_;
  kernels::ThreadPool pool_;
  SteadyClock clock_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<MeshExecutor> executor_;
  std::uint64_t step_ = 0;
};

TEST_F(MeshExecutorTest, GreedyTokensAreTheLikeliest) {
  std::vector<TokenId> tokens = {3, 1, 4, 1, 5, 9, 2, 6};
  StepResult result = Execute(Start(7, tokens, Output::kSample));
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(result.error, "");
    ASSERT_EQ(result.rows.size(), 1u);
    const TokenId sampled = result.rows[0].scored.at(0).token;
    const std::vector<double> all = file_.Forward(tokens);
    const auto last = all.end() - kVocabulary;
    EXPECT_EQ(sampled, std::max_element(last, all.end()) - last);
    tokens.push_back(sampled);
    // Every second time by reference to the step before instead of the number.
    const PlannedToken token = i % 2 == 0 ? PlannedToken{.literal = sampled} : PlannedToken{.row = 0, .step = result.step};
    result = Execute(Next(7, static_cast<int>(tokens.size()) - 1, token));
  }
}

// An embedding would be of another position, or not what the head sees.
TEST_F(MeshExecutorTest, PooledIsTheStateThatTheHeadReads) {
  const std::vector<TokenId> tokens = {3, 1, 4, 1, 5};
  StepPlan plan = Start(1, {2, 7}, Output::kPooled);
  const StepPlan other = Start(2, tokens, Output::kPooled, 2);
  plan.starts.push_back(other.starts[0]);
  plan.changes.push_back(other.changes[0]);
  plan.rows.push_back(other.rows[0]);
  const StepResult result = Execute(plan);
  ASSERT_EQ(result.error, "");
  ASSERT_EQ(result.rows.size(), 2u);
  const std::vector<double> expected = file_.Forward(tokens);
  const std::vector<float>& hidden = result.rows[1].hidden;
  std::vector<float> row(hidden.size());
  for (int token = 0; token < kVocabulary; ++token) {
    model_->weights().HeadMatrices().front().packed.DequantizeRow(token, row.data());
    double logit = 0;
    for (std::size_t i = 0; i < hidden.size(); ++i) logit += static_cast<double>(hidden[i]) * static_cast<double>(row[i]);
    EXPECT_NEAR(logit, expected[4 * kVocabulary + static_cast<std::size_t>(token)], 1e-3);
  }
}

TEST_F(MeshExecutorTest, ScoresAndLogitsOfEveryPosition) {
  const std::vector<TokenId> tokens = {3, 1, 4, 1, 5};
  StepPlan plan = Start(1, tokens, Output::kLogits);
  StepPlan scored = Start(2, tokens, Output::kScore, 2);
  scored.rows[0].targets = {10, 20, 30, 40, 50};
  scored.rows[0].top = 3;
  plan.starts.push_back(scored.starts[0]);
  plan.changes.push_back(scored.changes[0]);
  plan.rows.push_back(scored.rows[0]);
  const StepResult result = Execute(plan);
  ASSERT_EQ(result.error, "");
  ASSERT_EQ(result.rows.size(), 2u);
  const std::vector<double> expected = file_.Forward(tokens);
  ASSERT_EQ(result.rows[0].logits.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(result.rows[0].logits[i]), expected[i], 1e-3);
  }
  ASSERT_EQ(result.rows[1].scored.size(), 5u);
  for (std::size_t t = 0; t < 5; ++t) {
    const std::vector<double> row(expected.begin() + static_cast<std::ptrdiff_t>(t * kVocabulary),
                                  expected.begin() + static_cast<std::ptrdiff_t>((t + 1) * kVocabulary));
    double sum = 0;
    for (const double logit : row) sum += std::exp(logit);
    const scheduler::ScoredToken& got = result.rows[1].scored[t];
    EXPECT_EQ(got.token, scored.rows[0].targets[t]);
    EXPECT_NEAR(static_cast<double>(got.logprob), row[static_cast<std::size_t>(got.token)] - std::log(sum), 1e-3);
    ASSERT_EQ(got.top.size(), 3u);
    EXPECT_EQ(got.top[0].token, std::max_element(row.begin(), row.end()) - row.begin());
  }
}

TEST_F(MeshExecutorTest, CopiedBlocksContinueAlike) {
  const std::vector<TokenId> tokens = {3, 1, 4, 1, 5, 9, 2, 6};
  const StepResult first = Execute(Start(1, tokens, Output::kSample));
  StepPlan plan = Next(1, 8, {.literal = 11});
  StepPlan copy = Start(2, {11}, Output::kSample, 4);
  copy.rows[0].first_position = 8;
  copy.rows[0].logprob = true;
  plan.starts = copy.starts;
  plan.changes = copy.changes;
  plan.copies.push_back({{0}, {16}});
  plan.rows.push_back(copy.rows[0]);
  const StepResult result = Execute(plan);
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.rows[0].scored[0], result.rows[1].scored[0]);
}

TEST_F(MeshExecutorTest, PlansThatMakeNoSenseFailAlone) {
  EXPECT_NE(Execute(Next(99, 0, {.literal = 1})).error, "");  // a sequence that nobody started
  ASSERT_EQ(Execute(Start(1, {1, 2, 3}, Output::kSample)).error, "");
  EXPECT_NE(Execute(Start(1, {1}, Output::kSample)).error, "");                      // starts twice
  EXPECT_NE(Execute(Start(2, {1}, Output::kSample, 7)).error, "");                   // a block outside the pool
  EXPECT_NE(Execute(Start(3, {kVocabulary}, Output::kSample)).error, "");            // no token
  EXPECT_NE(Execute(Start(4, {-1}, Output::kSample)).error, "");
  EXPECT_NE(Execute(Start(5, {}, Output::kSample)).error, "");
  EXPECT_NE(Execute(Start(6, std::vector<TokenId>(97, 1), Output::kNone)).error, "");     // too many tokens
  EXPECT_NE(Execute(Start(8, std::vector<TokenId>(17, 1), Output::kLogits)).error, "");   // too many outputs
  EXPECT_NE(Execute(Start(9, {1, 2}, Output::kScore)).error, "");                    // no targets
  EXPECT_NE(Execute(Start(10, {1, 2}, Output::kHidden)).error, "");
  EXPECT_NE(Execute(Next(1, 128, {.literal = 1})).error, "");                        // behind its blocks
  EXPECT_NE(Execute(Next(1, -5, {.literal = 1})).error, "");
  EXPECT_NE(Execute(Next(1, 3, {.row = 5, .step = {1}})).error, "");                 // a row that the step had not
  EXPECT_NE(Execute(Next(1, 3, {.row = 0, .step = {1000}})).error, "");
  StepPlan copies = Next(1, 3, {.literal = 1});
  copies.copies.push_back({{0}, {32}});
  EXPECT_NE(Execute(copies).error, "");
  StepPlan keeps = Next(1, 3, {.literal = 1});
  keeps.changes.push_back({.sequence = {1}, .keep = 9});
  EXPECT_NE(Execute(keeps).error, "");
  StepPlan mask = Next(1, 3, {.literal = 1});
  mask.masks.push_back({.row = 0, .allowed = {1}});
  EXPECT_NE(Execute(mask).error, "");
  EXPECT_EQ(Execute(Next(1, 3, {.literal = 1})).error, "");  // and the sequence goes on
}

TEST_F(MeshExecutorTest, ReleasedSequencesAreForgotten) {
  ASSERT_EQ(Execute(Start(1, {1, 2, 3}, Output::kSample)).error, "");
  StepPlan plan = Start(1, {1, 2, 3}, Output::kSample);
  plan.releases.push_back({1});
  EXPECT_EQ(Execute(plan).error, "");
}

TEST_F(MeshExecutorTest, MaskedTokensAreNotSampled) {
  StepPlan plan = Start(1, {1, 2, 3}, Output::kSample);
  plan.masks.push_back({.row = 0, .allowed = {std::uint64_t{1} << 17, 0}});
  const StepResult result = Execute(plan);
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.rows[0].scored[0].token, 17);
}

}  // namespace
}  // namespace skein::engine
