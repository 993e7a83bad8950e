// SPDX-License-Identifier: Apache-2.0
//
// If this fails, an answer depends on who else was there: on whose computed prefix it began with, where its blocks lay, how
// its prompt was cut or whether it gave way. A real decoder on little memory against each request alone.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/mesh_executor.h"
#include "engine/token_sink.h"
#include "model/kv_store.h"
#include "model/tiny_model_testing.h"
#include "scheduler/policies/registry.h"

namespace skein::engine {
namespace {

struct Outcome {
  std::vector<std::vector<scheduler::ScoredToken>> tokens;  // by request
  EngineStats stats;
  std::int32_t cached = 0;
};

// Requests that begin alike in many ways: 3 heads, 4 bodies of each, some asked for twice.
std::vector<RequestSpec> Requests() {
  std::vector<RequestSpec> requests;
  for (std::int32_t i = 0; i < 14; ++i) {
    RequestSpec request{.request = {static_cast<std::uint64_t>(i) + 1}, .max_tokens = 60 + i % 7};
    for (std::int32_t p = 0; p < 70 + i % 3 * 20; ++p) request.tokens.push_back((p * 7 + i % 3) % 80);
    for (std::int32_t p = 0; p < i % 4 * 13; ++p) request.tokens.push_back((p * 5 + i % 4) % 80);
    request.prompt_tokens = static_cast<std::int32_t>(request.tokens.size());
    request.sampling.seed = static_cast<std::uint64_t>(i);
    request.top_logprobs = 2;
    request.tenant = i % 5 == 0 ? "other" : "";
    request.priority = i % 2;
    requests.push_back(std::move(request));
  }
  return requests;
}

Outcome Play(const model::Model& model, kernels::ThreadPool& pool, std::uint32_t frames, EngineOptions options,
             bool together) {
  const SteadyClock clock;
  auto executor = MeshExecutor::Create(model, pool, {.kv_type = model::DefaultKvType(model.arithmetic()), .frames = frames,
                                                     .context = 256, .step_tokens = 64, .step_outputs = 16}, clock);
  SKEIN_CHECK(executor.ok());
  options.own_thread = false;
  auto engine = Engine::Create(std::move(*executor), options, clock);
  SKEIN_CHECK(engine.ok());
  Outcome outcome;
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  const auto run_out = [&] {
    while ((*engine)->Step()) (*engine)->CheckBlocks();
  };
  for (RequestSpec& request : Requests()) {
    sinks.push_back(std::make_shared<CollectingSink>());
    EXPECT_TRUE((*engine)->Submit(std::move(request), sinks.back()).ok());
    if (!together) run_out();
    if (sinks.size() % 3 == 0) (*engine)->Step();  // some come in the middle
  }
  run_out();
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->WaitForEnd().reason, FinishReason::kLength) << sink->WaitForEnd().error;
    outcome.cached += sink->WaitForEnd().cached_tokens;
    auto& tokens = outcome.tokens.emplace_back();
    for (const TokenEvent& event : sink->tokens()) tokens.push_back(event.token);
  }
  outcome.stats = (*engine)->Stats();
  return outcome;
}

class SharedBlocksTest : public testing::TestWithParam<DType> {};

TEST_P(SharedBlocksTest, AnswersAreThoseOfEachRequestAlone) {
  const model::TinyModel file({.matrices = GetParam()});
  kernels::ThreadPool pool(2);
  auto model = model::Model::Load(file, {}, pool);
  ASSERT_TRUE(model.ok());
  const Outcome alone = Play(**model, pool, 16, {.prefix_cache = false}, /*together=*/false);
  EXPECT_EQ(alone.cached, 0);
  const auto play = [&](std::string policy, std::uint32_t frames, std::int64_t step_target_ns) {
    const Outcome shared =
        Play(**model, pool, frames, {.sequences = 8, .policy = policy, .step_target_ns = step_target_ns}, /*together=*/true);
    EXPECT_EQ(shared.tokens, alone.tokens) << policy << ", " << frames << " frames";
    EXPECT_EQ(shared.stats.blocks_held, 0u);
    return shared;
  };
  EXPECT_GT(play("fcfs", 16, 1'000'000).cached, 300);
  EXPECT_GT(play("priority", 5, 0).stats.preemptions, 2u);  // memory for two or three of fourteen
  EXPECT_GT(play("fair", 5, 1'000'000).stats.preemptions, 2u);
}

INSTANTIATE_TEST_SUITE_P(Weights, SharedBlocksTest, testing::Values(DType::kF32, DType::kQ4_1),
                         [](const auto& each) { return std::string(each.param == DType::kF32 ? "f32" : "q4_1"); });

}  // namespace
}  // namespace skein::engine
