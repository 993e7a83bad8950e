// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "scheduler/policies/registry.h"
#include "scheduler/scheduler.h"

namespace skein::scheduler {
namespace {

const SchedulerLimits kLimits{.vocabulary = 5000, .context = 4096, .blocks = 1024, .block_tokens = 16,
                                  .step_tokens = 256, .step_outputs = 32, .sequences = 16};

SequenceState Asked(std::uint64_t id, std::int32_t prompt, std::int32_t max_tokens, TokenId first = 1) {
  SequenceState state;
  state.sequence = {id};
  state.prompt_tokens = prompt;
  state.max_tokens = max_tokens;
  for (std::int32_t i = 0; i < prompt; ++i) state.tokens.push_back((first + i) % 5000);
  return state;
}

// Runs until nothing is left and notes what was computed for whom.
struct Drive {
  explicit Drive(SchedulerLimits limits = kLimits) : scheduler(limits, **FindPolicy("fcfs")) {}

  bool Step() {
    const StepPlan& plan = scheduler.PlanStep(0);
    if (plan.rows.empty()) return false;
    Commit(plan);
    scheduler.CheckBlocks();
    return true;
  }
  void Commit(const StepPlan& plan) {
    StepResult result;
    result.step = plan.step;
    for (std::size_t i = 0; i < plan.rows.size(); ++i) {
      const PlanRow& row = plan.rows[i];
      computed[row.sequence.value] += static_cast<int>(row.tokens.size());
      if (row.output == Output::kNone) continue;
      RowResult& got = result.rows.emplace_back();
      got.row = static_cast<std::int32_t>(i);
      const auto position = static_cast<std::size_t>(row.first_position) + row.tokens.size();
      if (row.output == Output::kSample) got.scored.push_back({.token = static_cast<TokenId>(position % 5000)});
      for (const TokenId target : row.targets) got.scored.push_back({.token = target});
    }
    scheduler.Commit(plan, std::move(result));
    for (const SchedulerEvent& event : scheduler.events()) {
      if (event.kind == SchedulerEvent::Kind::kFinished) ends[event.sequence.value] = event;
      if (event.kind == SchedulerEvent::Kind::kToken) tokens[event.sequence.value].push_back(event.token.token);
    }
    scheduler.events().clear();
  }
  void Ask(const SequenceState& state) { ASSERT_TRUE(scheduler.Add(state, 0).ok()); }
  void RunOut() {
    while (Step()) {
    }
  }

  Scheduler scheduler;
  std::map<std::uint64_t, int> computed;
  std::map<std::uint64_t, SchedulerEvent> ends;
  std::map<std::uint64_t, std::vector<TokenId>> tokens;
};

// The second turn of a chat would compute the first one again.
TEST(SchedulerPrefixTest, ASecondTurnStartsWhereTheFirstEnded) {
  Drive run;
  run.Ask(Asked(1, 600, 50));
  run.RunOut();
  EXPECT_EQ(run.ends[1].cached, 0);
  SequenceState second = Asked(2, 600, 5);
  second.tokens.insert(second.tokens.end(), run.tokens[1].begin(), run.tokens[1].end());
  for (int i = 0; i < 20; ++i) second.tokens.push_back(4000 + i);
  second.prompt_tokens = 670;
  run.Ask(second);
  run.RunOut();
  EXPECT_EQ(run.ends[2].cached, 649 / 16 * 16);  // the last token of the first answer was never computed
  EXPECT_EQ(run.computed[2], 670 - 640 + 4);
  EXPECT_EQ(run.scheduler.counts().prefix_queries, 600u + 670u);
  EXPECT_EQ(run.scheduler.counts().prefix_hits, 640u);
  EXPECT_EQ(run.scheduler.pool().held_count(), 0u);
  EXPECT_GT(run.scheduler.pool().cached_count(), 40u);
}

// A prompt that is known wholly would have no position to sample from.
TEST(SchedulerPrefixTest, OneTokenIsAlwaysComputed) {
  for (const std::int32_t size : {15, 16, 17, 31, 32, 33, 64}) {
    Drive run;
    run.Ask(Asked(1, size, 2));
    run.RunOut();
    run.Ask(Asked(2, size, 2));
    run.RunOut();
    EXPECT_EQ(run.ends[2].cached, (size - 1) / 16 * 16) << size;
    EXPECT_EQ(run.tokens[2], run.tokens[1]);
  }
}

// Eight clients with one system prompt, or eight choices of one request, would each compute it.
TEST(SchedulerPrefixTest, ThoseThatComeTogetherComputeTheirCommonPrefixOnce) {
  Drive run;
  for (std::uint64_t id = 1; id <= 8; ++id) {
    SequenceState state = Asked(id, 1000, 4);
    for (int i = 0; i < 24; ++i) state.tokens.push_back(static_cast<TokenId>(1000 + id * 100) + i);
    state.prompt_tokens = 1024;
    run.Ask(state);
  }
  std::uint32_t most_held = 0;
  while (run.Step()) most_held = std::max(most_held, run.scheduler.pool().held_count());
  int computed = 0;
  for (const auto& [id, count] : run.computed) computed += count;
  EXPECT_EQ(computed, 992 + 8 * (32 + 3));
  EXPECT_LE(most_held, 62u + 8 * 3);  // and they hold it once
  for (std::uint64_t id = 1; id <= 8; ++id) EXPECT_EQ(run.ends[id].cached, id == 1 ? 0 : 992);
}

// Whoever waits for another one's prompt would wait for ever when that one goes, stands still or takes too long.
TEST(SchedulerPrefixTest, WaitingForAPrefixEndsWithWhoeverComputesIt) {
  for (const bool cancels : {true, false}) {
    Drive run;
    run.Ask(Asked(1, 2000, 4));
    run.Ask(Asked(2, 2000, 4));
    run.Step();
    EXPECT_EQ(run.computed.count(2), 0u);
    cancels ? run.scheduler.Cancel({1}) : run.scheduler.SetPaused({1}, true);
    run.Step();
    EXPECT_GT(run.computed[2], 0);
    run.RunOut();
    EXPECT_EQ(run.tokens[2].size(), 4u);
    EXPECT_EQ(run.ends[2].cached, 256);  // what was there when it stopped waiting
  }
}

// Below some tokens a wait costs more than it saves.
TEST(SchedulerPrefixTest, ShortCommonPrefixesAreNotWaitedFor) {
  Drive run;
  run.Ask(Asked(1, 60, 4));
  run.Ask(Asked(2, 60, 4));
  run.Step();
  EXPECT_EQ(run.computed[2], 60);
  run.RunOut();
  EXPECT_EQ(run.scheduler.pool().cached_count(), 3u);  // the same blocks, not twice
}

// One tenant would see from the time of its answer what another one asked.
TEST(SchedulerPrefixTest, TenantsAndSaltsNeverShare) {
  Drive run;
  std::uint64_t id = 0;
  for (const char* tenant : {"a", "b"}) {
    for (const char* salt : {"", "x", "y"}) {
      SequenceState state = Asked(++id, 300, 2);
      state.tenant = tenant;
      state.cache_salt = salt;
      run.Ask(state);
      EXPECT_EQ(run.scheduler.waiting_count(), 1u);
      run.RunOut();
      EXPECT_EQ(run.ends[id].cached, 0);
      state.sequence = {100 + id};
      run.Ask(state);
      run.RunOut();
      EXPECT_EQ(run.ends[100 + id].cached, 288);
    }
  }
}

// Prompt log-probabilities of known blocks would be missing.
TEST(SchedulerPrefixTest, RequestsForPromptOutputsComputeAfresh) {
  Drive run;
  run.Ask(Asked(1, 300, 2));
  run.RunOut();
  SequenceState state = Asked(2, 300, 2);
  state.prompt_output = PromptOutput::kScores;
  run.Ask(state);
  run.RunOut();
  EXPECT_EQ(run.ends[2].cached, 0);
  EXPECT_EQ(run.computed[2], 301);
  run.Ask(Asked(3, 300, 2));
  run.RunOut();
  EXPECT_EQ(run.ends[3].cached, 288);
}

// `--no-prefix-cache` would keep what was asked.
TEST(SchedulerPrefixTest, ItCanBeTurnedOff) {
  SchedulerLimits limits = kLimits;
  limits.prefix_cache = false;
  Drive run(limits);
  run.Ask(Asked(1, 300, 2));
  run.Ask(Asked(2, 300, 2));
  run.RunOut();
  EXPECT_EQ(run.computed[2], 301);
  EXPECT_EQ(run.scheduler.pool().cached_count(), 0u);
  EXPECT_EQ(run.scheduler.counts().prefix_queries, 0u);
}

// A sequence that gave way would compute everything again though its blocks are still there.
TEST(SchedulerPrefixTest, APreemptedSequenceFindsItsOwnBlocks) {
  SchedulerLimits limits = kLimits;
  limits.blocks = 64;  // 1024 tokens
  Drive run(limits);
  run.Ask(Asked(1, 480, 60, 1));
  run.Ask(Asked(2, 480, 60, 1001));
  run.RunOut();
  EXPECT_EQ(run.scheduler.preemption_count(), 1u);
  EXPECT_EQ(run.tokens[1].size(), 60u);
  EXPECT_EQ(run.tokens[2].size(), 60u);
  EXPECT_EQ(run.ends[2].cached, 0);  // what it found again is no saving of its prompt
  EXPECT_LT(run.computed[2], 480 + 60 + 300);
}

// A step that failed may not have told ranks which blocks a sequence without a row in it holds by now: it would read those
// of somebody else.
TEST(SchedulerPrefixTest, AnExchangeThatWentWithAFailedStepIsSentAgain) {
  Drive run;
  run.Ask(Asked(1, 40, 4));
  run.Ask(Asked(2, 40, 4));
  run.Step();  // both computed the same; the second one holds the first one's blocks from now on
  run.scheduler.SetPaused({2}, true);
  const auto has_change = [](const StepPlan& plan) {
    return std::ranges::find(plan.changes, SequenceId{2}, &BlockTableChange::sequence) != plan.changes.end();
  };
  const StepPlan& failing = run.scheduler.PlanStep(0);
  EXPECT_TRUE(has_change(failing));
  run.scheduler.Commit(failing, {.step = failing.step, .error = "a rank is gone"});
  run.scheduler.events().clear();
  run.scheduler.SetPaused({2}, false);
  const StepPlan& next = run.scheduler.PlanStep(0);
  EXPECT_TRUE(has_change(next));
  run.Commit(next);
  run.RunOut();
  EXPECT_EQ(run.tokens[2].size(), 4u);
}

// Long answers would be driven out by nothing but holes: memory that nobody uses and nobody may have.
TEST(SchedulerPrefixTest, MemoryIsFullWhenTheFirstGivesWay) {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    SchedulerLimits limits = kLimits;
    limits.context = 40000;
    limits.blocks = 8192;  // 131072 tokens
    limits.step_tokens = 8192;
    limits.step_outputs = limits.sequences = 64;
    Drive run(limits);
    std::minstd_rand random(seed);
    std::uint64_t id = 0;
    double live = 0;
    while (run.scheduler.preemption_count() == 0) {
      ASSERT_LT(id, 3000u);
      while (run.scheduler.waiting_count() < 4) {  // sizes from 50 to 32K, each doubling as likely as the next
        const double doublings = static_cast<double>(random() % 1000) / 1000 * std::log2(32768.0 / 50);
        const auto size = static_cast<std::int32_t>(50 * std::exp2(doublings));
        run.Ask(Asked(++id, std::max(1, size / 2), size / 2 + 1, static_cast<TokenId>(random() % 5000)));
      }
      const double places = 131072;
      live = (run.scheduler.pool().held_count() * 16.0 - static_cast<double>(run.scheduler.UnusedPlaces())) / places;
      const StepPlan& plan = run.scheduler.PlanStep(0);
      ASSERT_FALSE(plan.rows.empty());
      EXPECT_LE(run.scheduler.UnusedPlaces(), 15 * run.scheduler.running_count());
      run.Commit(plan);
    }
    EXPECT_GE(live, 0.97) << "seed " << seed;
  }
}

}  // namespace
}  // namespace skein::scheduler
