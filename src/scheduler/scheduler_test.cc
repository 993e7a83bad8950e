// SPDX-License-Identifier: Apache-2.0
#include "scheduler/scheduler.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <new>

#include <gtest/gtest.h>

#include "scheduler/policies/registry.h"

// Counts what is allocated by this program, for the test of steady steps.
static std::atomic<std::size_t> allocation_count = 0;
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocation_count;
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace skein::scheduler {
namespace {

const SchedulerLimits kLimits{
    .vocabulary = 100, .context = 64, .blocks = 16, .block_tokens = 4, .step_tokens = 16, .step_outputs = 8, .sequences = 8};

SequenceState Asked(std::uint64_t id, std::int32_t prompt, std::int32_t max_tokens) {
  SequenceState state;
  state.sequence = {id};
  state.prompt_tokens = prompt;
  state.max_tokens = max_tokens;
  for (std::int32_t i = 0; i < prompt; ++i) state.tokens.push_back((i + static_cast<std::int32_t>(id)) % 100);
  return state;
}

// A result that gives each sampled row the token `token`.
StepResult Answer(const StepPlan& plan, TokenId token = 7) {
  StepResult result;
  result.step = plan.step;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const PlanRow& row = plan.rows[i];
    if (row.output == Output::kNone) continue;
    RowResult& got = result.rows.emplace_back();
    got.row = static_cast<std::int32_t>(i);
    if (row.output == Output::kSample) got.scored.push_back({.token = token});
    for (const TokenId target : row.targets) got.scored.push_back({.token = target, .logprob = -1});
    if (row.output == Output::kLogits) got.logits.assign(row.tokens.size() * 100, 0.5f);
  }
  return result;
}

std::int32_t Outputs(const StepPlan& plan) {
  std::int32_t outputs = 0;
  for (const PlanRow& row : plan.rows) {
    if (row.output == Output::kSample) outputs += 1;
    if (row.output == Output::kScore || row.output == Output::kLogits) outputs += static_cast<std::int32_t>(row.tokens.size());
  }
  return outputs;
}

// Runs until nothing is left; returns all events.
std::vector<SchedulerEvent> RunOut(Scheduler& scheduler, TokenId token = 7) {
  std::vector<SchedulerEvent> events;
  for (int step = 0; step < 1000; ++step) {
    const StepPlan& plan = scheduler.PlanStep(0);
    if (!plan.rows.empty()) scheduler.Commit(plan, Answer(plan, token));
    std::move(scheduler.events().begin(), scheduler.events().end(), std::back_inserter(events));
    scheduler.events().clear();
    if (plan.rows.empty()) return events;
  }
  ADD_FAILURE() << "it never ends";
  return events;
}

std::vector<TokenId> TokensOf(const std::vector<SchedulerEvent>& events, std::uint64_t id) {
  std::vector<TokenId> tokens;
  for (const SchedulerEvent& event : events) {
    if (event.sequence.value == id && event.kind == SchedulerEvent::Kind::kToken) tokens.push_back(event.token.token);
  }
  return tokens;
}

const SchedulerEvent& EndOf(const std::vector<SchedulerEvent>& events, std::uint64_t id) {
  static const SchedulerEvent none;
  for (const SchedulerEvent& event : events) {
    if (event.sequence.value == id && event.kind == SchedulerEvent::Kind::kFinished) return event;
  }
  ADD_FAILURE() << "sequence " << id << " never ended";
  return none;
}

Scheduler MakeScheduler(SchedulerLimits limits = kLimits) { return Scheduler(limits, **FindPolicy("fcfs")); }

// Running answers would stand still for as long as a long prompt takes.
TEST(SchedulerTest, AnswersGoFirstAndPromptsAreCutIntoChunks) {
  Scheduler scheduler = MakeScheduler();
  ASSERT_TRUE(scheduler.Add(Asked(1, 3, 20), 0).ok());
  const StepPlan* plan = &scheduler.PlanStep(0);
  ASSERT_EQ(plan->rows.size(), 1u);
  EXPECT_EQ(plan->rows[0].tokens.size(), 3u);
  EXPECT_EQ(plan->rows[0].output, Output::kSample);
  EXPECT_EQ(plan->starts.size(), 1u);
  scheduler.Commit(*plan, Answer(*plan));

  ASSERT_TRUE(scheduler.Add(Asked(2, 40, 5), 0).ok());
  const std::size_t chunks[] = {15, 15, 10};
  std::int32_t position = 0;
  for (const std::size_t chunk : chunks) {
    plan = &scheduler.PlanStep(0);
    ASSERT_EQ(plan->rows.size(), 2u);
    EXPECT_EQ(plan->rows[0].sequence.value, 1u);
    EXPECT_EQ(plan->rows[0].tokens.size(), 1u);
    EXPECT_EQ(plan->rows[1].first_position, position);
    EXPECT_EQ(plan->rows[1].tokens.size(), chunk);
    position += static_cast<std::int32_t>(chunk);
    EXPECT_EQ(plan->rows[1].output, position == 40 ? Output::kSample : Output::kNone);
    scheduler.Commit(*plan, Answer(*plan));
  }
  const auto events = RunOut(scheduler);
  EXPECT_EQ(EndOf(events, 1).reason, FinishReason::kLength);
  EXPECT_EQ(EndOf(events, 1).generated, 20);
  EXPECT_EQ(EndOf(events, 2).generated, 5);
  EXPECT_EQ(scheduler.pool().held_count(), 0u);
}

// A full engine would deadlock, or an early answer would be lost to a late one.
TEST(SchedulerTest, TheLatestArrivalGivesWayAndIsReplayedFromItsTokens) {
  Scheduler scheduler = MakeScheduler();  // 16 blocks of 4
  SequenceState late = Asked(2, 8, 40);
  late.sampling.frequency_penalty = 1;
  ASSERT_TRUE(scheduler.Add(Asked(1, 8, 40), 0).ok());
  ASSERT_TRUE(scheduler.Add(late, 0).ok());
  std::vector<SchedulerEvent> events;
  bool replayed = false;
  for (int step = 0; step < 200; ++step) {
    const StepPlan& plan = scheduler.PlanStep(0);
    if (plan.rows.empty()) break;
    for (const SequenceStart& start : plan.starts) {
      if (step == 0) continue;
      EXPECT_EQ(start.sequence.value, 2u);
      EXPECT_EQ(static_cast<std::int32_t>(start.generated.size()), scheduler.Find(start.sequence)->generated());
      EXPECT_GT(start.generated.size(), 10u);
      replayed = true;
    }
    scheduler.Commit(plan, Answer(plan));
    std::move(scheduler.events().begin(), scheduler.events().end(), std::back_inserter(events));
    scheduler.events().clear();
  }
  EXPECT_TRUE(replayed);
  EXPECT_EQ(scheduler.preemption_count(), 1u);
  EXPECT_EQ(TokensOf(events, 1).size(), 40u);
  EXPECT_EQ(TokensOf(events, 2).size(), 40u);
  for (std::size_t i = 0, last = 0; i < events.size(); ++i) {  // no index twice
    if (events[i].sequence.value != 2 || events[i].kind != SchedulerEvent::Kind::kToken) continue;
    EXPECT_EQ(static_cast<std::size_t>(events[i].index), last++);
  }
  EXPECT_EQ(scheduler.pool().held_count(), 0u);
}

// Perplexity and prompt log-probabilities would miss or repeat positions.
TEST(SchedulerTest, PromptScoresComeOnceForEachPositionWithinTheOutputBudget) {
  for (const PromptOutput wanted : {PromptOutput::kScores, PromptOutput::kLogits}) {
    for (const std::int32_t max_tokens : {0, 3}) {
      for (const std::int32_t prompt : {1, 2, 8, 9, 30}) {
        Scheduler scheduler = MakeScheduler();
        SequenceState state = Asked(1, prompt, max_tokens);
        state.prompt_output = wanted;
        ASSERT_TRUE(scheduler.Add(state, 0).ok());
        std::int32_t next = 0;
        std::vector<SchedulerEvent> events;
        for (int step = 0; step < 100; ++step) {
          const StepPlan& plan = scheduler.PlanStep(0);
          if (plan.rows.empty()) break;
          ASSERT_LE(Outputs(plan), kLimits.step_outputs);
          for (std::size_t i = 0; i < plan.rows[0].targets.size(); ++i) {
            const auto position = static_cast<std::size_t>(plan.rows[0].first_position) + i;
            EXPECT_EQ(plan.rows[0].targets[i], state.tokens[position + 1]);
          }
          scheduler.Commit(plan, Answer(plan));
          for (SchedulerEvent& event : scheduler.events()) {
            if (event.kind == SchedulerEvent::Kind::kPrompt) {
              EXPECT_EQ(event.first_position, next);
              next += static_cast<std::int32_t>(event.scores.size() + event.logits.size() / 100);
            }
            events.push_back(std::move(event));
          }
          scheduler.events().clear();
        }
        EXPECT_EQ(next, wanted == PromptOutput::kScores ? prompt - 1 : prompt);
        EXPECT_EQ(static_cast<std::int32_t>(TokensOf(events, 1).size()), max_tokens);
        EXPECT_EQ(EndOf(events, 1).reason, FinishReason::kLength);
        EXPECT_EQ(scheduler.pool().held_count(), 0u);
      }
    }
  }
}

// Answers would run past their end, or end before they may.
TEST(SchedulerTest, StopTokensLengthsAndTheContextEndAnAnswer) {
  Scheduler scheduler = MakeScheduler();
  SequenceState stops = Asked(1, 3, 10);
  stops.stop_tokens = {7};
  SequenceState later = Asked(2, 3, 10);
  later.stop_tokens = {7};
  later.min_tokens = 4;
  SequenceState ignores = Asked(3, 3, 10);
  ignores.stop_tokens = {7};
  ignores.ignore_stop_tokens = true;
  const SequenceState fills = Asked(4, 3, 1000);
  for (const SequenceState& state : {stops, later, ignores}) ASSERT_TRUE(scheduler.Add(state, 0).ok());
  auto events = RunOut(scheduler);
  EXPECT_EQ(EndOf(events, 1).reason, FinishReason::kStop);
  EXPECT_EQ(TokensOf(events, 1), (std::vector<TokenId>{7}));  // the stop token is reported
  EXPECT_EQ(EndOf(events, 2).reason, FinishReason::kStop);
  EXPECT_EQ(TokensOf(events, 2).size(), 5u);
  EXPECT_EQ(EndOf(events, 3).reason, FinishReason::kLength);
  EXPECT_EQ(TokensOf(events, 3).size(), 10u);
  ASSERT_TRUE(scheduler.Add(fills, 0).ok());
  events = RunOut(scheduler);
  EXPECT_EQ(EndOf(events, 4).reason, FinishReason::kLength);
  EXPECT_EQ(TokensOf(events, 4).size(), 61u);  // 64 in all
}

// A request that was moved to another engine would start its answer again.
TEST(SchedulerTest, AnAnswerGoesOnFromItsTokens) {
  Scheduler scheduler = MakeScheduler();
  SequenceState state = Asked(1, 3, 10);
  state.tokens.insert(state.tokens.end(), {7, 7, 7, 7});
  ASSERT_TRUE(scheduler.Add(state, 0).ok());
  const auto events = RunOut(scheduler);
  ASSERT_EQ(TokensOf(events, 1).size(), 6u);
  EXPECT_EQ(events.front().index, 4);
  EXPECT_EQ(EndOf(events, 1).generated, 10);
}

// A request would crash a kernel, or wait for ever for memory that does not exist.
TEST(SchedulerTest, ImpossibleRequestsAreRefusedWithNumbers) {
  Scheduler scheduler = MakeScheduler();
  EXPECT_EQ(scheduler.capacity(), 64);
  EXPECT_EQ(scheduler.Check(Asked(1, 0, 1)).code(), Code::kInvalidArgument);
  EXPECT_TRUE(scheduler.Check(Asked(1, 64, 0)).ok());
  EXPECT_TRUE(scheduler.Check(Asked(1, 63, 1)).ok());
  EXPECT_EQ(scheduler.Check(Asked(1, 64, 1)).code(), Code::kLimit);
  const Status status = scheduler.Check(Asked(1, 65, 0));
  EXPECT_EQ(status.code(), Code::kLimit);
  EXPECT_NE(status.message().find("65"), std::string::npos);
  EXPECT_NE(status.message().find("64"), std::string::npos);
  SequenceState state = Asked(1, 2, 1);
  state.tokens[1] = 100;
  EXPECT_EQ(scheduler.Check(state).code(), Code::kLimit);
  state = Asked(1, 2, 1);
  state.sampling.top_p = -0.1F;
  EXPECT_EQ(scheduler.Check(state).field(), "top_p");
  state.sampling = {.temperature = std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(scheduler.Check(state).field(), "temperature");
  state.sampling = {.bias = {{-1, 0.0f}}};
  EXPECT_EQ(scheduler.Check(state).code(), Code::kLimit);
  state.sampling = {};
  state.max_tokens = std::numeric_limits<std::int32_t>::max();
  EXPECT_TRUE(scheduler.Check(state).ok());

  SchedulerLimits small = kLimits;
  small.blocks = 2;
  EXPECT_EQ(MakeScheduler(small).capacity(), 8);
}

// One slow reader would hold up the others, or hold memory that they need.
TEST(SchedulerTest, APausedSequenceGetsNoRowsAndGivesWayFirst) {
  Scheduler scheduler = MakeScheduler();
  ASSERT_TRUE(scheduler.Add(Asked(1, 8, 40), 0).ok());
  ASSERT_TRUE(scheduler.Add(Asked(2, 8, 40), 0).ok());
  for (int step = 0; step < 5; ++step) {
    const StepPlan& plan = scheduler.PlanStep(0);
    scheduler.Commit(plan, Answer(plan));
  }
  scheduler.events().clear();
  scheduler.SetPaused({1}, true);
  EXPECT_EQ(scheduler.paused_count(), 1u);
  const auto events = RunOut(scheduler);  // until only the paused one is left
  EXPECT_EQ(EndOf(events, 2).generated, 40);
  EXPECT_TRUE(TokensOf(events, 1).empty());
  EXPECT_EQ(scheduler.preemption_count(), 0u);  // 12 + 4 blocks are enough
  ASSERT_TRUE(scheduler.Add(Asked(3, 55, 5), 0).ok());
  EXPECT_EQ(EndOf(RunOut(scheduler), 3).generated, 5);
  EXPECT_EQ(scheduler.preemption_count(), 1u);
  scheduler.SetPaused({1}, false);
  EXPECT_EQ(EndOf(RunOut(scheduler), 1).generated, 40);
  EXPECT_EQ(scheduler.paused_count(), 0u);
  EXPECT_EQ(scheduler.pool().held_count(), 0u);
}

// A cancelled request would go on computing, or take others with it.
TEST(SchedulerTest, CancelEndsOneSequenceBeforeDuringAndAfterAStep) {
  Scheduler scheduler = MakeScheduler();
  for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(scheduler.Add(Asked(id, 3, 5), 0).ok());
  scheduler.Cancel({1});
  scheduler.Cancel({99});
  const StepPlan& plan = scheduler.PlanStep(0);
  ASSERT_EQ(plan.rows.size(), 2u);
  scheduler.Cancel({2});
  scheduler.Commit(plan, Answer(plan));
  const auto events = RunOut(scheduler);
  EXPECT_EQ(EndOf(events, 1).reason, FinishReason::kCancelled);
  EXPECT_EQ(EndOf(events, 2).reason, FinishReason::kCancelled);
  EXPECT_TRUE(TokensOf(events, 2).empty());
  EXPECT_EQ(TokensOf(events, 3).size(), 5u);
  EXPECT_EQ(scheduler.pool().held_count(), 0u);
}

// One bad step would end the engine, or requests that had no part in it.
TEST(SchedulerTest, AFailedStepEndsItsRowsOnly) {
  SchedulerLimits limits = kLimits;
  limits.sequences = 2;
  Scheduler scheduler = MakeScheduler(limits);
  for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(scheduler.Add(Asked(id, 3, 5), 0).ok());
  const StepPlan& plan = scheduler.PlanStep(0);
  StepResult result = Answer(plan);
  result.error = "a rank is gone";
  scheduler.Commit(plan, std::move(result));
  const auto events = RunOut(scheduler);
  EXPECT_EQ(EndOf(events, 1).reason, FinishReason::kError);
  EXPECT_EQ(EndOf(events, 2).error, "a rank is gone");
  EXPECT_EQ(TokensOf(events, 3).size(), 5u);
  EXPECT_EQ(scheduler.pool().held_count(), 0u);
}

// A rank in another process that answers nonsense would corrupt the engine.
TEST(SchedulerTest, AResultThatDoesNotFitIsAFailedStep) {
  const auto spoil = {+[](StepResult& result) { result.rows.clear(); },
                      +[](StepResult& result) { result.rows[0].row = 5; },
                      +[](StepResult& result) { result.rows[0].scored.clear(); },
                      +[](StepResult& result) { result.rows[0].scored[0].token = 100; },
                      +[](StepResult& result) { result.rows[0].scored[0].token = -1; },
                      +[](StepResult& result) { result.rows[0].logits.push_back(1); },
                      +[](StepResult& result) { result.rows.push_back(result.rows[0]); },
                      +[](StepResult& result) { result.step.value += 1; }};
  for (const auto& change : spoil) {
    Scheduler scheduler = MakeScheduler();
    ASSERT_TRUE(scheduler.Add(Asked(1, 3, 5), 0).ok());
    const StepPlan& plan = scheduler.PlanStep(0);
    StepResult result = Answer(plan);
    change(result);
    scheduler.Commit(plan, std::move(result));
    EXPECT_EQ(EndOf(scheduler.events(), 1).reason, FinishReason::kError);
    EXPECT_EQ(scheduler.pool().held_count(), 0u);
  }
}

// A request nobody waits for any more would be computed.
TEST(SchedulerTest, DeadlinesEndSequences) {
  Scheduler scheduler = MakeScheduler();
  SequenceState state = Asked(1, 3, 5);
  state.deadline_ns = 100;
  ASSERT_TRUE(scheduler.Add(state, 0).ok());
  const StepPlan& plan = scheduler.PlanStep(99);
  ASSERT_EQ(plan.rows.size(), 1u);
  scheduler.Commit(plan, Answer(plan));
  EXPECT_TRUE(scheduler.PlanStep(100).rows.empty());
  EXPECT_EQ(EndOf(scheduler.events(), 1).reason, FinishReason::kError);
}

// The time of a step would depend on the heap of a process that has been running for weeks.
TEST(SchedulerTest, PlanningAStepOfAnswersAllocatesNothing) {
  SchedulerLimits limits = kLimits;
  limits.blocks = 1000;
  limits.context = 1000;
  Scheduler scheduler = MakeScheduler(limits);
  for (std::uint64_t id = 1; id <= 8; ++id) ASSERT_TRUE(scheduler.Add(Asked(id, 5, 500), 0).ok());
  for (int step = 0; step < 40; ++step) {
    const StepPlan& plan = scheduler.PlanStep(0);
    scheduler.Commit(plan, Answer(plan));
    scheduler.events().clear();
  }
  std::size_t in_plans = 0, in_commits = 0;
  for (int step = 0; step < 20; ++step) {
    const std::size_t before = allocation_count;
    const StepPlan& plan = scheduler.PlanStep(0);
    in_plans += allocation_count - before;
    ASSERT_EQ(plan.rows.size(), 8u);
    StepResult result = Answer(plan);
    const std::size_t before_commit = allocation_count;
    scheduler.Commit(plan, std::move(result));
    in_commits += allocation_count - before_commit;
    scheduler.events().clear();
  }
  EXPECT_EQ(in_plans, 0u);
  EXPECT_LE(in_commits, 8u);  // the lists of tokens grow now and then
}

// Users who type a wrong policy would have to read the source.
TEST(SchedulerTest, PoliciesAreFoundByName) {
  EXPECT_TRUE(FindPolicy("fcfs").ok());
  const auto unknown = FindPolicy("lifo");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("fcfs"), std::string::npos);
  for (std::size_t i = 1; i < Policies().size(); ++i) EXPECT_LT(Policies()[i - 1]->name(), Policies()[i]->name());
}

}  // namespace
}  // namespace skein::scheduler
