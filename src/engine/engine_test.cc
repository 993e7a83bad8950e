// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <ctime>

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "engine/simulated_executor.h"
#include "engine/token_sink.h"
#include "engine/wired_executor.h"

namespace skein::engine {
namespace {

constexpr ExecutorLimits kLimits{
    .vocabulary = 1000, .context = 128, .blocks = 32, .block_tokens = 16, .step_tokens = 32, .step_outputs = 16};

RequestSpec Asked(std::uint64_t id, std::int32_t prompt, std::int32_t max_tokens) {
  RequestSpec request{.request = {id}, .prompt_tokens = prompt, .max_tokens = max_tokens};
  for (std::int32_t i = 0; i < prompt; ++i) request.tokens.push_back(i + static_cast<std::int32_t>(id));
  return request;
}

class EngineTest : public testing::Test {
 protected:
  void Start(EngineOptions options, ExecutorLimits limits = kLimits) {
    auto simulated = std::make_unique<SimulatedExecutor>(limits, scheduler::StepCost{}, &clock_);
    simulated_ = simulated.get();
    auto engine = Engine::Create(std::make_unique<WiredExecutor>(std::move(simulated)), std::move(options), clock_);
    ASSERT_TRUE(engine.ok());
    engine_ = std::move(*engine);
  }
  // What the answer to a request must be.
  std::vector<TokenId> Expected(const RequestSpec& request) const {
    std::vector<TokenId> tokens = request.tokens;
    while (static_cast<std::int32_t>(tokens.size()) - request.prompt_tokens < request.max_tokens &&
           static_cast<std::int32_t>(tokens.size()) < kLimits.context) {
      tokens.push_back(simulated_->NextToken(tokens, request.sampling.seed, request.choice));
    }
    return {tokens.begin() + static_cast<std::ptrdiff_t>(request.tokens.size()), tokens.end()};
  }

  ManualClock clock_;
  SimulatedExecutor* simulated_ = nullptr;
  std::unique_ptr<Engine> engine_;
};

// The engine would not work at all.
TEST_F(EngineTest, ManyRequestsFromManyThreadsAreAnsweredAsAlone) {
  for (const std::int32_t plans : {1, 4}) {
    ExecutorLimits limits = kLimits;
    limits.plans_in_flight = plans;
    Start({.sequences = 6}, limits);
    std::vector<std::thread> clients;
    std::atomic<int> right = 0;
    for (std::uint64_t client = 0; client < 4; ++client) {
      clients.emplace_back([&, client] {
        for (std::uint64_t i = 0; i < 25; ++i) {
          RequestSpec request = Asked(client * 100 + i, 1 + static_cast<std::int32_t>(i) * 3, static_cast<std::int32_t>(i));
          request.sampling.seed = i;
          auto sink = std::make_shared<CollectingSink>();
          ASSERT_TRUE(engine_->Submit(request, std::make_shared<WiredSink>(sink)).ok());
          EXPECT_EQ(sink->WaitForEnd().reason, FinishReason::kLength);
          right += sink->TokenIds() == Expected(request) ? 1 : 0;
        }
      });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(right, 100);
    engine_->Shutdown();
    const EngineStats stats = engine_->Stats();
    EXPECT_EQ(stats.blocks_held, 0u);
    EXPECT_EQ(stats.running + stats.waiting, 0u);
    EXPECT_EQ(stats.generated_tokens, 4u * 24 * 25 / 2);
  }
}

// A serving machine that waits would heat the room.
TEST_F(EngineTest, AnIdleEngineUsesNoProcessorTime) {
  Start({});
  auto sink = std::make_shared<CollectingSink>();
  ASSERT_TRUE(engine_->Submit(Asked(1, 4, 4), sink).ok());
  sink->WaitForEnd();
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 50);
}

// Under too much load memory would grow without end instead of clients being told.
TEST_F(EngineTest, AFullInboxSaysSo) {
  Start({.inbox_requests = 3, .requests = 5, .own_thread = false});
  auto sink = std::make_shared<CollectingSink>();
  for (std::uint64_t id = 1; id <= 3; ++id) EXPECT_TRUE(engine_->Submit(Asked(id, 4, 4), sink).ok());
  EXPECT_EQ(engine_->Submit(Asked(4, 4, 4), sink).code(), Code::kUnavailable);
  EXPECT_EQ(engine_->Submit(Asked(3, 4, 4), sink).code(), Code::kInvalidArgument);  // alive already
  EXPECT_TRUE(engine_->Step());
  EXPECT_TRUE(engine_->Submit(Asked(4, 4, 4), sink).ok());
  EXPECT_TRUE(engine_->Submit(Asked(5, 4, 4), sink).ok());
  EXPECT_EQ(engine_->Submit(Asked(6, 4, 4), sink).code(), Code::kUnavailable);
  while (engine_->Step()) {
  }
  EXPECT_EQ(sink->tokens().size(), 20u);
  EXPECT_TRUE(engine_->Submit(Asked(3, 4, 4), sink).ok());  // the id is free again
}

// A bad request would reach the kernels.
TEST_F(EngineTest, ImpossibleRequestsAreRefusedWithoutACallToTheSink) {
  Start({.own_thread = false});
  auto sink = std::make_shared<CollectingSink>();
  EXPECT_EQ(engine_->Submit(Asked(1, 129, 1), sink).code(), Code::kLimit);
  EXPECT_EQ(engine_->Submit(Asked(1, 0, 1), sink).code(), Code::kInvalidArgument);
  RequestSpec request = Asked(1, 3, 1);
  request.tokens[0] = 1000;
  EXPECT_EQ(engine_->Submit(request, sink).code(), Code::kLimit);
  EXPECT_FALSE(engine_->Step());
  EXPECT_FALSE(sink->finished());
}

// A client that leaves would go on costing time and memory.
TEST_F(EngineTest, CancelEndsARequestAtAnyMoment) {
  Start({.own_thread = false});
  auto early = std::make_shared<CollectingSink>(), late = std::make_shared<CollectingSink>();
  ASSERT_TRUE(engine_->Submit(Asked(1, 4, 50), early).ok());
  engine_->Cancel({1});
  engine_->Cancel({1});
  engine_->Cancel({77});
  EXPECT_FALSE(engine_->Step());
  EXPECT_EQ(early->WaitForEnd().reason, FinishReason::kCancelled);
  ASSERT_TRUE(engine_->Submit(Asked(1, 4, 50), late).ok());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(engine_->Step());
  engine_->Cancel({1});
  EXPECT_FALSE(engine_->Step());
  EXPECT_EQ(late->WaitForEnd().reason, FinishReason::kCancelled);
  EXPECT_EQ(late->WaitForEnd().generated_tokens, 5);
  engine_->Cancel({1});  // too late, harmless
  EXPECT_EQ(engine_->Stats().blocks_held, 0u);
}

// Clients of an engine that goes would wait for ever.
TEST_F(EngineTest, ShutdownEndsWhatIsAlive) {
  for (const bool own_thread : {true, false}) {
    Start({.own_thread = own_thread});
    auto sink = std::make_shared<CollectingSink>();
    RequestSpec request = Asked(1, 4, 100);
    ASSERT_TRUE(engine_->Submit(request, sink).ok());
    engine_->Shutdown();
    const FinishReason reason = sink->WaitForEnd().reason;
    EXPECT_TRUE(reason == FinishReason::kCancelled || (own_thread && reason == FinishReason::kLength));
    EXPECT_EQ(engine_->Submit(request, sink).code(), Code::kUnavailable);
    engine_->Shutdown();
  }
}

// One failing step would take the service down.
TEST_F(EngineTest, AFailedStepEndsItsRequestsAndTheEngineLivesOn) {
  Start({.own_thread = false});
  simulated_->FailStep({3}, "a rank is gone");
  auto first = std::make_shared<CollectingSink>(), second = std::make_shared<CollectingSink>();
  ASSERT_TRUE(engine_->Submit(Asked(1, 4, 50), first).ok());
  for (int i = 0; i < 3; ++i) engine_->Step();
  EXPECT_EQ(first->WaitForEnd().reason, FinishReason::kError);
  EXPECT_EQ(first->WaitForEnd().error, "a rank is gone");
  EXPECT_EQ(first->tokens().size(), 2u);
  const RequestSpec request = Asked(2, 4, 5);
  ASSERT_TRUE(engine_->Submit(request, second).ok());
  while (engine_->Step()) {
  }
  EXPECT_EQ(second->TokenIds(), Expected(request));
  EXPECT_EQ(simulated_->sequences_known(), 1u);  // the failed one was released, the last goes with the next plan
}

// One slow reader would hold up everybody, or lose tokens.
TEST_F(EngineTest, ASinkWithoutRoomPausesItsSequenceAndNobodyElse) {
  Start({});
  const RequestSpec slow_request = Asked(1, 4, 40), fast_request = Asked(2, 4, 40);
  auto slow = std::make_shared<BoundedSink>(3);
  slow->SetOnRoom([this] { engine_->Wake(); });
  auto fast = std::make_shared<CollectingSink>();
  ASSERT_TRUE(engine_->Submit(slow_request, slow).ok());
  ASSERT_TRUE(engine_->Submit(fast_request, fast).ok());
  EXPECT_EQ(fast->WaitForEnd().reason, FinishReason::kLength);
  EXPECT_FALSE(slow->HasRoom());
  std::vector<TokenId> tokens;
  for (;;) {
    const SinkEvent event = slow->WaitForEvent();
    if (std::holds_alternative<FinishedEvent>(event)) break;
    tokens.push_back(std::get<TokenEvent>(event).token.token);
  }
  EXPECT_EQ(tokens, Expected(slow_request));
  EXPECT_EQ(fast->TokenIds(), Expected(fast_request));
}

// Perplexity and `eval logits` would see holes.
TEST_F(EngineTest, PromptScoresAndLogitsArriveInOrder) {
  Start({.own_thread = false});
  for (const PromptOutput wanted : {PromptOutput::kScores, PromptOutput::kLogits}) {
    auto sink = std::make_shared<CollectingSink>();
    RequestSpec request = Asked(1, 70, 2);
    request.prompt_output = wanted;
    request.top_logprobs = 2;
    ASSERT_TRUE(engine_->Submit(request, std::make_shared<WiredSink>(sink)).ok());
    while (engine_->Step()) {
    }
    std::int32_t next = 0;
    for (const PromptEvent& event : sink->prompt()) {
      EXPECT_EQ(event.first_position, next);
      next += static_cast<std::int32_t>(event.scores.size() + event.logits.size() / 1000);
      for (std::size_t i = 0; i < event.scores.size(); ++i) {
        EXPECT_EQ(event.scores[i].token, request.tokens[static_cast<std::size_t>(event.first_position) + i + 1]);
        EXPECT_EQ(event.scores[i].top.size(), 2u);
      }
    }
    EXPECT_EQ(next, wanted == PromptOutput::kScores ? 69 : 70);
    EXPECT_EQ(sink->TokenIds(), Expected(request));
    EXPECT_EQ(sink->tokens()[0].token.top.size(), 2u);
    EXPECT_LT(sink->tokens()[0].token.logprob, 0);
  }
}

// An embedding would depend on the company of its request, or never come.
TEST_F(EngineTest, PooledPromptsGiveOneVectorAndEnd) {
  Start({.own_thread = false});
  std::vector<std::vector<float>> vectors;
  for (const std::uint64_t company : {0u, 3u}) {
    std::vector<std::shared_ptr<CollectingSink>> others;
    for (std::uint64_t i = 0; i < company; ++i) {
      others.push_back(std::make_shared<CollectingSink>());
      ASSERT_TRUE(engine_->Submit(Asked(10 + i, 50, 4), others.back()).ok());
    }
    auto sink = std::make_shared<CollectingSink>();
    RequestSpec request = Asked(1, 70, 0);
    request.prompt_output = PromptOutput::kPooled;
    ASSERT_TRUE(engine_->Submit(request, std::make_shared<WiredSink>(sink)).ok());
    while (engine_->Step()) {
    }
    ASSERT_EQ(sink->prompt().size(), 1u);
    EXPECT_EQ(sink->prompt()[0].first_position, 69);
    vectors.push_back(sink->prompt()[0].hidden);
    EXPECT_EQ(sink->WaitForEnd().reason, FinishReason::kLength);
    EXPECT_TRUE(sink->TokenIds().empty());
  }
  EXPECT_EQ(vectors[0].size(), 8u);
  EXPECT_EQ(vectors[0], vectors[1]);
  RequestSpec both = Asked(2, 5, 3);
  both.prompt_output = PromptOutput::kPooled;
  EXPECT_FALSE(engine_->Submit(both, std::make_shared<CollectingSink>()).ok());
}

// Latencies in statistics would be wrong.
TEST_F(EngineTest, TimesAreCountedFromSubmit) {
  Start({.own_thread = false});
  auto sink = std::make_shared<CollectingSink>();
  ASSERT_TRUE(engine_->Submit(Asked(1, 4, 3), sink).ok());
  clock_.Advance(1000);
  while (engine_->Step()) {
  }
  const FinishedEvent& end = sink->WaitForEnd();
  EXPECT_EQ(end.queued_ns, 1000);
  EXPECT_GT(end.first_token_ns, 1000 + 3'000'000);
  EXPECT_GT(end.total_ns, end.first_token_ns + 6'000'000);
}

// Whoever tunes batches would look at a distribution of something else.
TEST_F(EngineTest, StepsAreCountedByTheirTokens) {
  Start({.step_target_ns = 0, .own_thread = false});
  ASSERT_TRUE(engine_->Submit(Asked(1, 40, 3), std::make_shared<CollectingSink>()).ok());
  while (engine_->Step()) {
  }
  // 32 of the prompt; its other 8 and the first token; two more tokens.
  const EngineStats stats = engine_->Stats();
  EXPECT_EQ(stats.step_tokens, (std::array<std::uint64_t, kStepTokenBounds.size() + 1>{2, 0, 1, 1}));
  EXPECT_EQ(stats.steps, 4u);
  EXPECT_EQ(stats.prompt_tokens + stats.generated_tokens, 43u);
}

// An engine over a model of so many stages, and how much of the stages' time goes by idle.
class PipeTest : public testing::Test {
 protected:
  // A step costs 1 ms for the weights or 0.1 ms for each token, whatever is more.
  void Start(std::int32_t stages, std::int32_t step_tokens) {
    const ExecutorLimits limits{.vocabulary = 10000,
                                .context = 8192,
                                .blocks = 4096,
                                .block_tokens = 16,
                                .step_tokens = step_tokens,
                                .step_outputs = 64,
                                .plans_in_flight = stages};
    const scheduler::StepCost cost{
        .step_ns = 0, .weights_ns = 1e6, .token_ns = 1e5, .output_ns = 0, .row_ns = 0, .key_ns = 0, .pair_ns = 0};
    auto simulated = std::make_unique<SimulatedExecutor>(limits, cost, &clock_, stages);
    simulated_ = simulated.get();
    auto engine = Engine::Create(std::make_unique<WiredExecutor>(std::move(simulated)),
                                 {.step_target_ns = 0, .step_cost = cost, .own_thread = false}, clock_);
    ASSERT_TRUE(engine.ok());
    engine_ = std::move(*engine);
    Mark();
  }
  void Mark() {
    marked_ns_ = clock_.NowNs();
    marked_busy_ns_ = simulated_->stage_times().busy_ns();
  }
  // Since the last Mark.
  double IdleShare() const {
    const auto all = static_cast<double>((clock_.NowNs() - marked_ns_) * simulated_->stage_times().stages());
    return 1 - static_cast<double>(simulated_->stage_times().busy_ns() - marked_busy_ns_) / all;
  }

  ManualClock clock_;
  SimulatedExecutor* simulated_ = nullptr;
  std::unique_ptr<Engine> engine_;
  std::int64_t marked_ns_ = 0, marked_busy_ns_ = 0;
};

// A prompt on a model of several stages would take as long as on one: m chunks on p stages leave (p - 1) / (m + p - 1) of the
// stages' time idle, at the beginning and at the end, and nothing between.
TEST_F(PipeTest, ABurstOfChunksLeavesIdleWhatAPipeMust) {
  for (const std::int32_t stages : {1, 2, 3, 4}) {
    for (const std::int32_t chunks : {4, 7, 16, 40}) {
      Start(stages, 128);
      ASSERT_TRUE(engine_->Submit(Asked(1, 128 * chunks, 0), std::make_shared<CollectingSink>()).ok());
      while (engine_->Step()) {
      }
      EXPECT_EQ(engine_->Stats().steps, static_cast<std::uint64_t>(chunks));
      EXPECT_NEAR(IdleShare(), (stages - 1.0) / (chunks + stages - 1.0), 0.03) << stages << " stages, " << chunks << " chunks";
    }
  }
}

// A single prompt that fits into one step would wait for one stage after the other.
TEST_F(PipeTest, AShortPromptIsCutForTheStages) {
  Start(4, 512);
  ASSERT_TRUE(engine_->Submit(Asked(1, 512, 0), std::make_shared<CollectingSink>()).ok());
  while (engine_->Step()) {
  }
  EXPECT_LT(clock_.NowNs(), 51'200'000 / 2);  // at best 7 / 16 of what one step takes
}

// Answers would keep one stage busy at a time.
TEST_F(PipeTest, SteadyAnswersKeepAllStagesBusy) {
  for (const std::int32_t stages : {2, 3, 4}) {
    for (const std::int32_t answers : {stages, 9, 36}) {
      Start(stages, 128);
      for (std::int32_t id = 1; id <= answers; ++id) {
        ASSERT_TRUE(engine_->Submit(Asked(static_cast<std::uint64_t>(id), 20, 1000), std::make_shared<CollectingSink>()).ok());
      }
      for (int step = 0; step < 20 * stages; ++step) engine_->Step();
      Mark();
      for (int step = 0; step < 100 * stages; ++step) engine_->Step();
      EXPECT_LT(IdleShare(), 0.02) << stages << " stages, " << answers << " answers";
    }
  }
}

// Under a mixed load stages would wait for plans that are smaller or larger than the others.
TEST_F(PipeTest, AMixedLoadKeepsStagesBusy) {
  for (const std::int32_t stages : {2, 4}) {
    Start(stages, 128);
    std::uint64_t id = 0;
    std::vector<std::shared_ptr<CollectingSink>> sinks;
    for (int step = 0; step < 600; ++step) {
      if (step == 100) Mark();
      while (engine_->Stats().waiting < 2) {
        ++id;
        const auto prompt = static_cast<std::int32_t>(20 + id * 37 % 400);
        ASSERT_TRUE(engine_->Submit(Asked(id, prompt, 40), sinks.emplace_back(std::make_shared<CollectingSink>())).ok());
        engine_->Step();
      }
      engine_->Step();
    }
    EXPECT_LT(IdleShare(), 0.1) << stages << " stages";
    engine_->Shutdown();  // with plans in flight
    for (const auto& sink : sinks) EXPECT_TRUE(sink->finished());
    EXPECT_EQ(engine_->Stats().blocks_held, 0u);
  }
}

// A wrong setting would end the process instead of being reported.
TEST_F(EngineTest, WrongOptionsAreErrors) {
  const auto make = [&](ExecutorLimits limits, EngineOptions options) {
    return Engine::Create(std::make_unique<SimulatedExecutor>(limits, scheduler::StepCost{}), std::move(options), clock_)
        .status()
        .code();
  };
  EXPECT_EQ(make(kLimits, {.policy = "lifo"}), Code::kInvalidArgument);
  EXPECT_EQ(make(kLimits, {.sequences = 0}), Code::kInvalidArgument);
  ExecutorLimits none = kLimits;
  none.blocks = 0;
  EXPECT_EQ(make(none, {}), Code::kInvalidArgument);
}

}  // namespace
}  // namespace skein::engine
