// SPDX-License-Identifier: Apache-2.0
//
// Several plans in flight, as a model needs that is cut into stages.
#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "scheduler/policies/registry.h"
#include "scheduler/scheduler.h"

namespace skein::scheduler {
namespace {

SchedulerLimits Limits(std::int32_t plans, std::uint32_t blocks = 1000) {
  return {.vocabulary = 1000, .context = 1024, .blocks = blocks, .block_tokens = 4, .step_tokens = 64, .step_outputs = 32,
          .sequences = 16, .plans_in_flight = plans};
}

SequenceState Asked(std::uint64_t id, std::int32_t prompt, std::int32_t max_tokens) {
  SequenceState state;
  state.sequence = {id};
  state.prompt_tokens = prompt;
  state.max_tokens = max_tokens;
  for (std::int32_t i = 0; i < prompt; ++i) state.tokens.push_back((i * 7 + static_cast<std::int32_t>(id) * 31) % 1000);
  return state;
}

// What is sampled for a sequence behind so many tokens: depends on nothing else.
TokenId TokenAt(std::uint64_t id, std::int32_t position) {
  return static_cast<TokenId>((id * 131 + static_cast<std::uint64_t>(position) * 17) % 1000);
}

// A scheduler and the plans that wait for their Commit.
struct Pipe {
  explicit Pipe(SchedulerLimits limits, const char* policy = "fcfs") : scheduler(limits, **FindPolicy(policy)), plans(limits.plans_in_flight) {}

  // False when there is no room for a plan, or nothing to plan.
  bool Plan() {
    if (flights.size() == static_cast<std::size_t>(plans)) return false;
    const StepPlan& plan = scheduler.PlanStep(now_ns);
    scheduler.CheckBlocks();
    if (plan.rows.empty()) return false;
    for (const PlanRow& row : plan.rows) {
      EXPECT_EQ(awaiting.count(row.sequence.value), 0u) << "a row behind one whose token is not known";
      if (row.output != Output::kNone) awaiting.insert(row.sequence.value);
    }
    flights.push_back(&plan);
    return true;
  }
  void Commit(const std::string& error = "") {
    const StepPlan& plan = *flights.front();
    flights.pop_front();
    StepResult result{.step = plan.step, .error = error};
    for (std::size_t i = 0; i < plan.rows.size(); ++i) {
      const PlanRow& row = plan.rows[i];
      if (row.output == Output::kNone) continue;
      awaiting.erase(row.sequence.value);
      if (!error.empty()) continue;
      RowResult& got = result.rows.emplace_back();
      got.row = static_cast<std::int32_t>(i);
      const auto end = row.first_position + static_cast<std::int32_t>(row.tokens.size());
      if (row.output == Output::kSample) got.scored.push_back({.token = TokenAt(row.sequence.value, end)});
      for (const TokenId target : row.targets) got.scored.push_back({.token = target});
    }
    scheduler.Commit(plan, std::move(result));
    scheduler.CheckBlocks();
    TakeEvents();
  }
  void TakeEvents() {
    for (SchedulerEvent& event : scheduler.events()) {
      const std::uint64_t id = event.sequence.value;
      EXPECT_EQ(ends.count(id), 0u) << "an event after the end of " << id;
      if (event.kind == SchedulerEvent::Kind::kToken) tokens[id].push_back(event.token.token);
      if (event.kind == SchedulerEvent::Kind::kFinished) ends[id] = event;
    }
    scheduler.events().clear();
  }
  // One turn of the engine's loop. False when nothing is left.
  bool Turn() {
    while (Plan()) {
    }
    TakeEvents();
    if (flights.empty()) return false;
    Commit();
    return true;
  }
  void RunOut() {
    for (int turn = 0; Turn(); ++turn) ASSERT_LT(turn, 5000) << "it never ends";
    EXPECT_EQ(scheduler.running_count() + scheduler.waiting_count(), 0u);
    EXPECT_EQ(scheduler.pool().held_count(), 0u);
  }
  void Ask(const SequenceState& state) { ASSERT_TRUE(scheduler.Add(state, now_ns).ok()); }
  // The answer is whole and nobody else's.
  void ExpectAnswer(std::uint64_t id, std::int32_t prompt, std::int32_t count) {
    ASSERT_EQ(static_cast<std::int32_t>(tokens[id].size()), count) << "sequence " << id;
    for (std::int32_t i = 0; i < count; ++i) EXPECT_EQ(tokens[id][static_cast<std::size_t>(i)], TokenAt(id, prompt + i));
    EXPECT_EQ(ends[id].reason, FinishReason::kLength);
  }

  Scheduler scheduler;
  std::int32_t plans;
  std::int64_t now_ns = 0;
  std::deque<const StepPlan*> flights;
  std::set<std::uint64_t> awaiting;
  std::map<std::uint64_t, std::vector<TokenId>> tokens;
  std::map<std::uint64_t, SchedulerEvent> ends;
};

// One plan would have all answers, and the stages of the model would take turns instead of working side by side.
TEST(SchedulerFlightsTest, PlansInFlightHaveEqualPartsOfTheAnswers) {
  for (const std::int32_t plans : {2, 3, 4}) {
    for (const std::int32_t answers : {1, 3, 8, 9, 16}) {
      Pipe pipe(Limits(plans));
      for (std::int32_t id = 1; id <= answers; ++id) pipe.Ask(Asked(static_cast<std::uint64_t>(id), 3, 200));
      for (int turn = 0; turn < 10 * plans; ++turn) pipe.Turn();
      const std::int32_t part = (answers + plans - 1) / plans;
      for (int turn = 0; turn < 5 * plans; ++turn) {
        while (pipe.Plan()) {
        }
        EXPECT_EQ(pipe.flights.size(), static_cast<std::size_t>(std::min(plans, answers)));
        std::size_t in_flight = 0;
        for (const StepPlan* plan : pipe.flights) {
          EXPECT_LE(plan->rows.size(), static_cast<std::size_t>(part));
          in_flight += plan->rows.size();
        }
        EXPECT_EQ(in_flight, static_cast<std::size_t>(answers)) << "somebody stands still";
        pipe.Commit();
      }
      pipe.RunOut();
      for (std::int32_t id = 1; id <= answers; ++id) pipe.ExpectAnswer(static_cast<std::uint64_t>(id), 3, 200);
    }
  }
}

// A long prompt would be computed by one stage after the other.
TEST(SchedulerFlightsTest, ChunksOfOnePromptAreInFlightTogether) {
  Pipe pipe(Limits(3));
  pipe.Ask(Asked(1, 300, 5));
  while (pipe.Plan()) {
  }
  ASSERT_EQ(pipe.flights.size(), 3u);
  std::int32_t position = 0;
  for (const StepPlan* plan : pipe.flights) {
    ASSERT_EQ(plan->rows.size(), 1u);
    EXPECT_EQ(plan->rows[0].first_position, position);
    EXPECT_EQ(plan->rows[0].tokens.size(), 64u);
    position += 64;
  }
  pipe.RunOut();
  pipe.ExpectAnswer(1, 300, 5);
}

// A prompt that fits into one step would keep one stage busy and the others idle.
TEST(SchedulerFlightsTest, ShortPromptsAreCutIntoEqualPartsToo) {
  Pipe pipe(Limits(3));
  pipe.Ask(Asked(1, 48, 2));
  while (pipe.Plan()) {
  }
  ASSERT_EQ(pipe.flights.size(), 3u);
  for (const StepPlan* plan : pipe.flights) EXPECT_EQ(plan->rows[0].tokens.size(), 16u);
  pipe.RunOut();
  Pipe tiny(Limits(3));
  tiny.Ask(Asked(1, 14, 2));  // not worth three ways of the weights from memory
  while (tiny.Plan()) {
  }
  EXPECT_EQ(tiny.flights.size(), 1u);
}

// Running answers would stutter for a long prompt because it is in the plan beside theirs, not in theirs.
TEST(SchedulerFlightsTest, PromptsAreCutForAnswersInOtherPlans) {
  SchedulerLimits limits = Limits(4);
  limits.step_tokens = 512;
  limits.step_target_ns = 10'000'000;  // 48 tokens of prompts in a step
  Pipe pipe(limits);
  pipe.Ask(Asked(1, 3, 100));
  for (int turn = 0; turn < 10; ++turn) pipe.Turn();
  pipe.Ask(Asked(2, 900, 2));
  while (pipe.Plan()) {
  }
  ASSERT_EQ(pipe.flights.size(), 4u);
  for (const StepPlan* plan : pipe.flights) EXPECT_LE(plan->TokenCount(), 65);
  pipe.RunOut();
}

// Scores of prompts would be out of order, or positions missing.
TEST(SchedulerFlightsTest, PromptScoresWaitForTheirTurn) {
  for (const std::int32_t plans : {1, 2, 4}) {
    Pipe pipe(Limits(plans));
    SequenceState state = Asked(1, 150, 3);
    state.prompt_output = PromptOutput::kScores;
    pipe.Ask(state);
    pipe.Ask(Asked(2, 150, 3));
    pipe.RunOut();
    pipe.ExpectAnswer(1, 150, 3);
    pipe.ExpectAnswer(2, 150, 3);
  }
}

// Memory would be given away while a plan on its way still reads it, or somebody would wait for ever for those in flight.
TEST(SchedulerFlightsTest, UnderPressureThoseInFlightKeepTheirBlocks) {
  for (const std::int32_t plans : {1, 2, 3, 4}) {
    Pipe pipe(Limits(plans, 40));  // 160 tokens; the answers alone will be 8 * 45
    for (std::uint64_t id = 1; id <= 8; ++id) pipe.Ask(Asked(id, 5, 40));
    while (pipe.Turn()) {
      while (pipe.Plan()) {
      }
      for (const StepPlan* plan : pipe.flights) {
        for (const PlanRow& row : plan->rows) ASSERT_NE(pipe.scheduler.Find(row.sequence), nullptr);
      }
    }
    for (std::uint64_t id = 1; id <= 8; ++id) pipe.ExpectAnswer(id, 5, 40);
    EXPECT_GT(pipe.scheduler.preemption_count(), 0u);
    EXPECT_EQ(pipe.scheduler.pool().held_count(), 0u);
  }
}

// What counts more would wait for the ends of what counts less, since that is always in flight.
TEST(SchedulerFlightsTest, AHigherPriorityTakesPlacesOfThoseInFlight) {
  for (const std::int32_t plans : {1, 2, 4}) {
    SchedulerLimits limits = Limits(plans);
    limits.sequences = 4;
    Pipe pipe(limits, "priority");
    for (std::uint64_t id = 1; id <= 4; ++id) pipe.Ask(Asked(id, 200, 200));
    for (int turn = 0; turn < 6; ++turn) pipe.Turn();
    while (pipe.Plan()) {
    }
    SequenceState first = Asked(9, 5, 2);
    first.priority = 5;
    pipe.Ask(first);
    for (int turn = 0; turn < 3 * plans + 3; ++turn) pipe.Turn();
    EXPECT_EQ(pipe.ends.count(9), 1u);
    EXPECT_EQ(pipe.ends.size(), 1u);
    pipe.RunOut();
    for (std::uint64_t id = 1; id <= 4; ++id) pipe.ExpectAnswer(id, 200, 200);
  }
}

// A client that leaves at the wrong moment would take the engine, or another one's answer, with it.
TEST(SchedulerFlightsTest, CancelsAtEveryMomentEndOneSequence) {
  for (const std::int32_t plans : {1, 2, 3, 4}) {
    bool went_on = true;
    for (int moment = 0; went_on; ++moment) {
      Pipe pipe(Limits(plans, 60));
      pipe.Ask(Asked(1, 20, 12));
      pipe.Ask(Asked(2, 150, 12));  // several chunks
      pipe.Ask(Asked(3, 30, 12));
      int now = 0;
      std::size_t known = 0;
      went_on = false;
      const auto pass = [&] {
        if (now++ != moment) return;
        went_on = pipe.ends.count(2) == 0;
        known = pipe.tokens[2].size();
        pipe.scheduler.Cancel({2});
        pipe.scheduler.Cancel({2});
        pipe.TakeEvents();
      };
      for (;;) {
        pass();
        while (pipe.Plan()) pass();
        if (pipe.flights.empty()) break;
        pipe.Commit();
      }
      pipe.ExpectAnswer(1, 20, 12);
      pipe.ExpectAnswer(3, 30, 12);
      EXPECT_EQ(pipe.ends[2].reason, went_on ? FinishReason::kCancelled : FinishReason::kLength);
      EXPECT_EQ(pipe.tokens[2].size(), went_on ? known : 12u) << "a token after the cancel";
      EXPECT_EQ(pipe.scheduler.pool().held_count(), 0u);
    }
  }
}

// A deadline that passes in the middle of a step would free memory that the step writes.
TEST(SchedulerFlightsTest, DeadlinesEndSequencesOnceTheirRowsAreBack) {
  Pipe pipe(Limits(2));
  SequenceState state = Asked(1, 100, 5);
  state.deadline_ns = 100;
  pipe.Ask(state);
  ASSERT_TRUE(pipe.Plan());
  const std::uint32_t held = pipe.scheduler.pool().held_count();
  pipe.now_ns = 200;
  EXPECT_FALSE(pipe.Plan());
  EXPECT_EQ(pipe.scheduler.pool().held_count(), held);
  pipe.RunOut();
  EXPECT_EQ(pipe.ends[1].reason, FinishReason::kError);
  EXPECT_NE(pipe.ends[1].error.find("deadline"), std::string::npos);
}

// A step that fails would end requests of the plans behind it, or leave ranks with tables of another sequence's blocks.
TEST(SchedulerFlightsTest, AFailedStepEndsItsOwnSequencesWhateverIsBehindIt) {
  for (const std::int32_t plans : {2, 3, 4}) {
    for (int failing = 0; failing < 60; ++failing) {
      Pipe pipe(Limits(plans, 70));
      for (std::uint64_t id = 1; id <= 6; ++id) pipe.Ask(Asked(id, 5 + 10 * static_cast<std::int32_t>(id), 20));
      std::set<std::uint64_t> hit;
      for (int step = 0;; ++step) {
        while (pipe.Plan()) {
        }
        if (pipe.flights.empty()) break;
        if (step == failing) {
          for (const PlanRow& row : pipe.flights.front()->rows) hit.insert(row.sequence.value);
        }
        pipe.Commit(step == failing ? "a rank is gone" : "");
      }
      for (std::uint64_t id = 1; id <= 6; ++id) {
        if (hit.count(id) > 0) {
          EXPECT_EQ(pipe.ends[id].error, "a rank is gone");
        } else {
          pipe.ExpectAnswer(id, 5 + 10 * static_cast<std::int32_t>(id), 20);
        }
      }
      EXPECT_EQ(pipe.scheduler.pool().held_count(), 0u);
    }
  }
}

// A prompt would start behind blocks that a failing step never wrote.
TEST(SchedulerFlightsTest, ThePrefixIndexKnowsNothingThatIsInFlight) {
  Pipe pipe(Limits(2));
  pipe.Ask(Asked(1, 40, 4));
  ASSERT_TRUE(pipe.Plan());
  SequenceState same = Asked(1, 40, 4);
  same.sequence = {2};
  pipe.Ask(same);
  ASSERT_TRUE(pipe.Plan());
  const auto second = std::ranges::find(pipe.flights[1]->rows, SequenceId{2}, &PlanRow::sequence);
  ASSERT_NE(second, pipe.flights[1]->rows.end());
  EXPECT_EQ(second->first_position, 0);
  pipe.RunOut();
  pipe.ExpectAnswer(1, 40, 4);
  pipe.ExpectAnswer(2, 40, 4);
}

}  // namespace
}  // namespace skein::scheduler
