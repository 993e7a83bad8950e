// SPDX-License-Identifier: Apache-2.0
//
// If these fail, whoever adds ranks gets other answers.
#include "api/local_rank.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/executor.h"
#include "model/tiny_model_testing.h"
#include "scheduler/step_plan.h"

namespace skein::api {
namespace {

using scheduler::Output;
using scheduler::StepPlan;
using scheduler::StepResult;

constexpr int kVocabulary = 71;
constexpr int kTokens = 128;  // of the KV store

model::TinyShape Shape() {
  return {.layers = 4, .hidden = 96, .heads = 9, .kv_heads = 3, .head_dim = 32, .feed_forward = 416, .vocabulary = kVocabulary,
          .matrices = DType::kQ4_1, .tied = true};
}

// A mesh of threads and its first rank's executor.
struct Lab {
  Lab(const model::TinyModel& file, comm::Places places, bool by_slice, std::vector<double> rank_speeds = {}) {
    machine.threads = 1;
    machine.mesh = places;
    machine.by_slice = by_slice;
    machine.rank_speeds = std::move(rank_speeds);
    machine.kv_type = kernels::KvType::kBf16;
    machine.step_tokens = machine.step_outputs = 64;
    auto loaded = ThreadMesh::Load(file, machine, kTokens, kTokens, {}, clock);
    SKEIN_CHECK(loaded.ok());
    mesh = std::move(loaded).value();
    executor = mesh->first().TakeExecutor({});
  }
  StepResult Execute(const StepPlan& plan) {
    executor->Submit(plan);
    return executor->Wait();
  }
  SteadyClock clock;
  Machine machine;
  std::unique_ptr<ThreadMesh> mesh;
  std::unique_ptr<engine::MeshExecutor> executor;  // goes first
};

scheduler::PlanRow RowOf(std::uint64_t sequence, const std::vector<TokenId>& tokens, int first_position, Output output) {
  scheduler::PlanRow row{.sequence = {sequence}, .first_position = first_position};
  for (const TokenId token : tokens) row.tokens.push_back({.literal = token});
  row.output = output;
  row.top = output == Output::kScore || output == Output::kSample ? 3 : 0;
  if (output == Output::kScore) row.targets.assign(tokens.size(), 7);
  return row;
}

// Three sequences: one that scores, one with logits and a pooled state, one that samples `count` tokens at temperature 1.
std::vector<StepResult> Answer(Lab& lab, int count) {
  const std::vector<TokenId> prompt = {3, 1, 4, 1, 5, 9, 2, 6};
  std::vector<StepResult> results;
  StepPlan plan{.step = {1}};
  const Output outputs[] = {Output::kScore, Output::kLogits, Output::kPooled, Output::kSample};
  for (std::uint64_t i = 0; i < 4; ++i) {
    scheduler::SequenceStart start{.sequence = {i + 1}};
    start.sampling.temperature = 1;
    start.sampling.top_p = 0.9f;
    start.sampling.seed = 11;
    start.prompt_tokens = static_cast<std::int32_t>(prompt.size());
    plan.starts.push_back(start);
    plan.changes.push_back({.sequence = {i + 1}, .append = {{{static_cast<std::uint32_t>(2 * i)}, 2}}});
    plan.rows.push_back(RowOf(i + 1, prompt, 0, outputs[i]));
  }
  results.push_back(lab.Execute(plan));
  for (int i = 0; i < count && results.back().error.empty(); ++i) {
    const TokenId token = results.back().rows.back().scored.front().token;
    StepPlan next{.step = {static_cast<std::uint64_t>(i) + 2}};
    next.rows.push_back(RowOf(4, {token}, static_cast<int>(prompt.size()) + i, Output::kSample));
    results.push_back(lab.Execute(next));
  }
  for (StepResult& result : results) result.compute_ns = result.communication_ns = 0;
  return results;
}

TEST(ThreadMesh, LayoutDeterministicMeshesAnswerAsOneRankToTheBit) {
  const model::TinyModel file(Shape());
  Lab one(file, {1, 1, 1, 1}, true);
  const std::vector<StepResult> expected = Answer(one, 12);
  ASSERT_EQ(expected.size(), 13u);
  ASSERT_EQ(expected.back().error, "");
  for (const comm::Places places : {comm::Places{1, 1, 1, 2}, {1, 1, 1, 3}, {1, 1, 1, 5}, {1, 2, 1, 1}, {1, 3, 1, 2}, {1, 4, 1, 1}}) {
    Lab lab(file, places, true);
    EXPECT_EQ(Answer(lab, 12), expected) << "pipe " << places.pipe << " tensor " << places.tensor;
  }
}

// Unlike ranks have other shares, not another model.
TEST(ThreadMesh, SharesThatFollowSpeedsAnswerTheSame) {
  const model::TinyModel file(Shape());
  Lab one(file, {1, 1, 1, 1}, true);
  Lab unlike(file, {1, 2, 1, 2}, true, {3, 1, 0.25, 0.5});
  const Result<std::vector<engine::RankStats>> ranks = RanksOf(file.config(), unlike.machine);
  ASSERT_TRUE(ranks.ok());
  EXPECT_EQ(ranks->front().layers.end, 3);
  EXPECT_EQ(ranks->front().heads.end, 7);
  EXPECT_EQ(ranks->back().heads.end - ranks->back().heads.begin, 6);
  EXPECT_EQ(Answer(unlike, 12), Answer(one, 12));
}

// A wrong list would give somebody a share that he did not mean, or none.
TEST(ResolveMachine, RankSpeedsAreANumberForEachRank) {
  EngineOptions options;
  options.tensor = 2;
  options.rank_speeds = "2,0.5";
  Result<Machine> machine = ResolveMachine(options);
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  EXPECT_EQ(machine->rank_speeds, (std::vector<double>{2, 0.5}));
  for (const char* wrong : {"2", "2,1,1", "2,", ",2", "2;1", "0,1", "-1,1", "nan,1", "inf,1", "1e9,1", "1 ,1", "0x1p0,1"}) {
    options.rank_speeds = wrong;
    machine = ResolveMachine(options);
    ASSERT_FALSE(machine.ok()) << wrong;
    EXPECT_EQ(machine.status().field(), "rank-speeds") << wrong;
  }
}

// A plan that cannot be would leave some ranks waiting for the others.
TEST(ThreadMesh, ABadPlanIsAnErrorAndTheNextOneRuns) {
  const model::TinyModel file(Shape());
  Lab lab(file, {1, 2, 1, 2}, false);
  StepPlan bad{.step = {9}};
  bad.rows.push_back(RowOf(77, {1}, 0, Output::kSample));
  EXPECT_NE(lab.Execute(bad).error, "");
  EXPECT_EQ(Answer(lab, 2).back().error, "");
}

}  // namespace
}  // namespace skein::api
