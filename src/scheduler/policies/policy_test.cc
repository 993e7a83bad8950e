// SPDX-License-Identifier: Apache-2.0
//
// Each policy's promise, kept over seeded loads on the real scheduler. Time is what step_cost predicts for each plan.
#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "scheduler/policies/deadline.h"
#include "scheduler/policies/priority.h"
#include "scheduler/policies/registry.h"
#include "scheduler/scheduler.h"

namespace skein::scheduler {
namespace {

struct Ask {
  std::int64_t at_ns = 0;
  SequenceState state;
  std::int32_t length = INT32_MAX;  // of the answer, if max_tokens allow it
};

constexpr TokenId kStopToken = 9;

struct End {
  bool refused = false;
  FinishReason reason = FinishReason::kNone;
  std::int64_t end_ns = 0;
};

struct Load {
  SchedulerLimits limits{.vocabulary = 1000, .context = 4096, .blocks = 4096, .block_tokens = 16, .step_tokens = 512,
                         .step_outputs = 32, .sequences = 16, .step_target_ns = 60'000'000};
  std::vector<Ask> asks;  // in order of time
  StepCost machine = limits.cost;  // what steps take, give or take …
  double noise = 0;                // … this part of it
};

Ask MakeAsk(std::uint64_t id, std::int64_t at_ns, std::int32_t prompt, std::int32_t max_tokens) {
  Ask ask{.at_ns = at_ns, .state = {}};
  ask.state.sequence = {id};
  ask.state.prompt_tokens = prompt;
  ask.state.max_tokens = max_tokens;
  for (std::int32_t i = 0; i < prompt; ++i) ask.state.tokens.push_back((static_cast<TokenId>(id) * 37 + i) % 1000);
  return ask;
}

// When each was added: at the first step behind its time.
using Times = std::map<std::uint64_t, std::int64_t>;
// Called with each plan, before it is computed.
using Look = std::function<void(const Scheduler&, const StepPlan&, const Times& added)>;

std::map<std::uint64_t, End> Play(const Load& load, const Policy& policy, const Look& look = nullptr) {
  Scheduler scheduler(load.limits, policy);
  std::map<std::uint64_t, End> ends;
  std::map<std::uint64_t, std::int32_t> lengths;
  for (const Ask& ask : load.asks) lengths[ask.state.sequence.value] = ask.length;
  Times added;
  std::minstd_rand random(1);
  std::int64_t now_ns = 0;
  std::size_t next = 0;
  for (;;) {
    for (; next < load.asks.size() && load.asks[next].at_ns <= now_ns; ++next) {
      const SequenceState& state = load.asks[next].state;
      added[state.sequence.value] = now_ns;
      const Status status = scheduler.Add(state, now_ns);
      if (status.ok()) continue;
      EXPECT_EQ(status.code(), Code::kUnavailable) << status.message();
      ends[state.sequence.value] = {.refused = true, .reason = FinishReason::kError, .end_ns = now_ns};
    }
    const StepPlan& plan = scheduler.PlanStep(now_ns);
    if (!plan.rows.empty()) {
      if (look) look(scheduler, plan, added);
      StepResult result;
      result.step = plan.step;
      for (std::size_t i = 0; i < plan.rows.size(); ++i) {
        if (plan.rows[i].output == Output::kNone) continue;
        const SequenceId sequence = plan.rows[i].sequence;
        const bool stops = scheduler.Find(sequence)->generated() + 1 >= lengths.at(sequence.value);
        result.rows.push_back({.row = static_cast<std::int32_t>(i), .scored = {{.token = stops ? kStopToken : 7}}, .logits = {}});
      }
      const double off = load.noise * (static_cast<double>(random() % 2001) / 1000 - 1);
      result.compute_ns = static_cast<std::uint64_t>(load.machine.Predict(ShapeOf(plan)) * (1 + off));
      now_ns += static_cast<std::int64_t>(result.compute_ns);
      scheduler.Commit(plan, std::move(result));
    }
    for (const SchedulerEvent& event : scheduler.events()) {
      if (event.kind != SchedulerEvent::Kind::kFinished) continue;
      ends[event.sequence.value] = {.refused = false, .reason = event.reason, .end_ns = now_ns};
    }
    scheduler.events().clear();
    if (!plan.rows.empty()) continue;
    if (next == load.asks.size()) break;
    now_ns = std::max(now_ns, load.asks[next].at_ns);
  }
  EXPECT_EQ(scheduler.running_count() + scheduler.waiting_count(), 0u) << "somebody waits for ever";
  return ends;
}

// Random asks of several tenants and priorities, more than the engine can do for a while, with too little memory.
Load MixedLoad(std::uint32_t seed) {
  std::minstd_rand random(seed);
  Load load;
  load.limits.blocks = 300;
  std::int64_t at_ns = 0;
  for (std::uint64_t id = 1; id <= 150; ++id) {
    at_ns += static_cast<std::int64_t>(random() % 100) * 1'000'000;
    Ask ask = MakeAsk(id, at_ns, static_cast<std::int32_t>(10 + random() % 800), static_cast<std::int32_t>(1 + random() % 200));
    ask.state.priority = static_cast<std::int32_t>(random() % 5) - 2;
    ask.state.tenant = std::string(1, static_cast<char>('a' + random() % 3));
    load.asks.push_back(ask);
  }
  return load;
}

// A request would be overtaken again and again, and wait for ever: whoever starts is before all that wait in an order
// in which only finitely many can be before a request.
TEST(PolicyTest, NobodyIsOvertakenButByWhatThePolicyPutsFirst) {
  for (const std::string name : {"deadline", "fcfs", "priority"}) {
    for (std::uint32_t seed = 1; seed <= 8; ++seed) {
      Load load = MixedLoad(seed);
      for (std::size_t i = 0; name == "deadline" && i < load.asks.size(); i += 3) {  // others have a minute
        load.asks[i].state.deadline_ns = load.asks[i].at_ns + 30'000'000'000 + static_cast<std::int64_t>(i) * 100'000'000;
      }
      const Policy& policy = **FindPolicy(name);
      std::set<std::uint64_t> begun;
      const auto candidate = [&](std::uint64_t id, const Times& added) {
        const Ask& ask = load.asks[id - 1];
        return Candidate{.sequence = {id}, .arrival = id, .arrival_ns = added.at(id), .priority = ask.state.priority,
                         .deadline_ns = ask.state.deadline_ns};
      };
      std::uint64_t overtakings = 0;
      const auto ends = Play(load, policy, [&](const Scheduler& scheduler, const StepPlan& plan, const Times& added) {
        for (const SequenceId released : plan.releases) begun.erase(released.value);
        std::set<std::uint64_t> starts;
        for (const SequenceStart& start : plan.starts) starts.insert(start.sequence.value);
        begun.insert(starts.begin(), starts.end());
        for (std::uint64_t id = 1; id <= load.asks.size(); ++id) {
          if (begun.contains(id) || scheduler.Find({id}) == nullptr) continue;  // it waits
          for (const std::uint64_t start : starts) {
            ASSERT_TRUE(policy.IsBefore(candidate(start, added), candidate(id, added))) << name << ": " << start << " before " << id;
            if (start < id) continue;
            ++overtakings;
            const SequenceState &first = load.asks[start - 1].state, &second = load.asks[id - 1].state;
            if (name == "priority") {
              ASSERT_LE(added.at(start) - added.at(id), (first.priority - second.priority) * kPriorityAgeNs);
            } else {
              ASSERT_EQ(name, "deadline");
              ASSERT_NE(first.deadline_ns, 0);
              ASSERT_LE(first.deadline_ns, second.deadline_ns != 0 ? second.deadline_ns : added.at(id) + kNoDeadlineNs);
            }
          }
        }
      });
      for (const auto& [id, end] : ends) EXPECT_EQ(end.reason, FinishReason::kLength);
      EXPECT_EQ(ends.size(), load.asks.size());
      EXPECT_EQ(overtakings == 0, name == "fcfs") << name;
    }
  }
}

// An urgent request would wait until some long answer happens to end.
TEST(PolicyTest, AHigherPriorityTakesBlocksAndPlacesOfALowerOneAtOnce) {
  for (const bool by_blocks : {true, false}) {
    Load load;
    load.limits.blocks = by_blocks ? 180 : 4096;
    load.limits.sequences = by_blocks ? 16 : 4;
    for (std::uint64_t id = 1; id <= 4; ++id) load.asks.push_back(MakeAsk(id, 0, 600, 200));
    Ask urgent = MakeAsk(5, 800'000'000, 400, 10);
    urgent.state.priority = 1;
    load.asks.push_back(urgent);
    Ask low = MakeAsk(6, 800'000'001, 400, 10);
    load.asks.push_back(low);
    bool urgent_known = false;
    const auto ends = Play(load, PriorityPolicy(), [&](const Scheduler& scheduler, const StepPlan& plan, const Times& /*added*/) {
      if (!urgent_known && scheduler.Find({5}) != nullptr) {
        urgent_known = true;
        EXPECT_EQ(scheduler.preemption_count(), 1u);
        EXPECT_TRUE(std::ranges::any_of(plan.rows, [](const PlanRow& row) { return row.sequence.value == 5; }));
        EXPECT_FALSE(std::ranges::any_of(plan.rows, [](const PlanRow& row) { return row.sequence.value == 6; }));
      }
    });
    EXPECT_TRUE(urgent_known);
    for (const auto& [id, end] : ends) {
      EXPECT_EQ(end.reason, FinishReason::kLength);
      EXPECT_GE(end.end_ns, ends.at(5).end_ns);
    }
  }
}

// Ageing would fail: a stream of urgent requests would hold up the others for ever.
TEST(PolicyTest, AfterItsAgeALowPriorityIsOvertakenByNothing) {
  Load load;
  load.limits.sequences = 1;
  load.asks.push_back(MakeAsk(1, 0, 100, 10));
  load.asks[0].state.priority = 1;
  load.asks.push_back(MakeAsk(2, 1, 100, 10));  // the low one
  for (std::uint64_t id = 3; id <= 1200; ++id) {  // more than can be done, for longer than its age
    load.asks.push_back(MakeAsk(id, static_cast<std::int64_t>(id - 2) * 40'000'000, 100, 10));
    load.asks.back().state.priority = 1;
  }
  const auto ends = Play(load, PriorityPolicy());
  std::int64_t later = 0;
  for (const auto& [id, end] : ends) later += end.end_ns > ends.at(2).end_ns ? 1 : 0;
  EXPECT_GT(ends.at(2).end_ns, kPriorityAgeNs);
  EXPECT_GT(later, 100);
}

// One tenant with a thousand requests would be the only one that is served.
TEST(PolicyTest, TenantsThatBothWaitHaveHadTheSame) {
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    std::minstd_rand random(seed);
    Load load;
    load.limits.blocks = 200;
    load.limits.prefix_cache = false;
    const std::int32_t prompt_max = 600;
    for (std::uint64_t id = 1; id <= 300; ++id) {  // "a" asks for four times as much, and long before
      const bool is_b = id > 200;
      Ask ask = MakeAsk(id, is_b ? 2'000'000'000 + static_cast<std::int64_t>(id) * 1000 : static_cast<std::int64_t>(id),
                        static_cast<std::int32_t>(20 + random() % (prompt_max - 20)), static_cast<std::int32_t>(1 + random() % 120));
      ask.state.tenant = is_b ? "b" : "a";
      load.asks.push_back(ask);
    }
    const std::int64_t bound = 2 * std::max<std::int64_t>(prompt_max, 2 * 16 * load.limits.blocks);
    std::map<std::uint64_t, std::int32_t> reached;  // positions computed, once
    std::int64_t had[2] = {0, 0}, base[2] = {0, 0};
    bool both = false;
    std::int64_t steps = 0, worst = 0;
    Play(load, **FindPolicy("fair"), [&](const Scheduler& scheduler, const StepPlan& plan, const Times& /*added*/) {
      bool waits[2] = {false, false};
      for (std::uint64_t id = 1; id <= 300; ++id) {
        if (scheduler.Find({id}) != nullptr && !reached.contains(id)) waits[id > 200] = true;
      }
      for (const PlanRow& row : plan.rows) {
        std::int32_t& position = reached[row.sequence.value];
        const std::int32_t end = row.first_position + static_cast<std::int32_t>(row.tokens.size());
        std::int64_t& service = had[row.sequence.value > 200];
        service += std::max(0, end - position);
        position = std::max(position, end);
        service += row.output == Output::kSample ? 1 : 0;
      }
      const bool now_both = waits[0] && waits[1];
      if (now_both && !both) std::copy(had, had + 2, base);
      both = now_both;
      if (!both) return;
      ++steps;
      worst = std::max(worst, std::abs((had[0] - base[0]) - (had[1] - base[1])));
    });
    EXPECT_GT(steps, 50);
    EXPECT_LE(worst, bound);
  }
}

// Running answers would stutter whenever a prompt comes, or prompts would wait until no answer runs.
TEST(PolicyTest, WhileAnswersRunStepsKeepToTheirTarget) {
  Load load = MixedLoad(5);
  load.limits.blocks = 4096;
  load.limits.cost.token_ns = 1e6;  // a step of 512 tokens takes half a second
  load.limits.cost.weights_ns = 8e6;
  const StepCost machine = load.machine = load.limits.cost;
  std::size_t mixed = 0, prompt_tokens = 0;
  for (const std::int64_t target_ns : {std::int64_t{100'000'000}, std::int64_t{0}}) {
    load.limits.step_target_ns = target_ns;
    double longest = 0;
    Play(load, **FindPolicy("fcfs"), [&](const Scheduler& /*scheduler*/, const StepPlan& plan, const Times& /*added*/) {
      StepPlan answers;
      for (const PlanRow& row : plan.rows) {
        if (row.tokens.size() == 1) answers.rows.push_back(row);
      }
      const std::int64_t chunks = plan.TokenCount() - answers.TokenCount();
      if (answers.rows.empty() || chunks == 0) return;
      const double alone = machine.Predict(ShapeOf(answers));
      longest = std::max(longest, machine.Predict(ShapeOf(plan)) / std::max(4 * alone, 100e6));
      mixed += target_ns == 0 ? 0 : 1;
      prompt_tokens += target_ns == 0 ? 0 : static_cast<std::size_t>(chunks);
    });
    if (target_ns == 0) {
      EXPECT_GT(longest, 3);  // else the load shows nothing
    } else {
      EXPECT_LT(longest, 1.05);
    }
  }
  EXPECT_GT(mixed, 100u);
  EXPECT_GT(prompt_tokens, 32 * mixed);
}

// Deadlines of about what they need and some slack, more than twice as many as can be done.
Load DeadlineLoad(std::uint32_t seed, double noise) {
  std::minstd_rand random(seed);
  Load load;
  load.noise = noise;
  if (noise > 0) load.machine = {.weights_ns = 8e6, .token_ns = 300e3, .key_ns = 200, .pair_ns = 80};  // to be learned
  std::int64_t at_ns = 0;
  for (std::uint64_t id = 1; id <= 250; ++id) {
    at_ns += static_cast<std::int64_t>(random() % (noise > 0 ? 270 : 180)) * 1'000'000;
    Ask ask = MakeAsk(id, at_ns, static_cast<std::int32_t>(50 + random() % 1000), static_cast<std::int32_t>(5 + random() % 100));
    const StepCost& cost = load.machine;
    const double alone = cost.Predict({.tokens = ask.state.prompt_tokens, .rows = 1, .outputs = 1}) +
                         ask.state.max_tokens * cost.Predict({.tokens = 1, .rows = 1, .outputs = 1});
    const double slack = 1.5 + static_cast<double>(random() % 600) / 100;
    ask.state.deadline_ns = at_ns + static_cast<std::int64_t>(alone * slack);
    load.asks.push_back(ask);
  }
  return load;
}

struct DeadlineCounts {
  std::size_t admitted = 0, in_time = 0;
  std::size_t refused = 0, possible = 0;  // of every third one refused
};

class NothingRefused final : public Policy {
 public:
  std::string_view name() const override { return "deadline, nothing refused"; }
  bool IsBefore(const Candidate& a, const Candidate& b) const override { return DeadlinePolicy().IsBefore(a, b); }
};

void CountDeadlines(const Load& load, DeadlineCounts& counts) {
  using Ends = std::map<std::uint64_t, End>;
  const Ends ends = Play(load, DeadlinePolicy());
  const auto is_in_time = [&](const Ends& of, std::uint64_t id) {
    const End& end = of.at(id);
    return !end.refused && end.reason != FinishReason::kError && end.end_ns <= load.asks[id - 1].state.deadline_ns;
  };
  std::vector<std::uint64_t> refused;
  for (const auto& [id, end] : ends) {
    if (end.refused) refused.push_back(id);
    counts.admitted += end.refused ? 0 : 1;
    counts.in_time += is_in_time(ends, id) ? 1 : 0;
  }
  for (std::size_t i = 0; i < refused.size(); i += 3) {
    Load with = load;
    std::erase_if(with.asks, [&](const Ask& ask) {
      const std::uint64_t id = ask.state.sequence.value;
      return ends.at(id).refused && id != refused[i];
    });
    const Ends again = Play(with, NothingRefused());
    const bool all_in_time = std::ranges::all_of(with.asks, [&](const Ask& ask) {
      const std::uint64_t id = ask.state.sequence.value;
      return is_in_time(again, id) || (id != refused[i] && !is_in_time(ends, id));
    });
    ++counts.refused;
    counts.possible += all_in_time ? 1 : 0;
  }
}

// Under too much load everybody would be late, instead of some being told so at once.
//
// How it is judged: (1) of those admitted, how many ended in time. (2) Of those refused, how many could have: the same load
// is played again with just the admitted ones and that one, nobody else refused, and it counts as possible when it ends
// in time and nobody of the admitted who was in time becomes late. Once on the machine that the scheduler expects, once on
// another one whose steps it must learn, and which are off by up to a tenth at random.
TEST(PolicyTest, UnderOverloadTheAdmittedMakeItAndTheRefusedCouldNot) {
  for (const double noise : {0.0, 0.1}) {
    DeadlineCounts counts;
    for (std::uint32_t seed = 1; seed <= 3; ++seed) CountDeadlines(DeadlineLoad(seed, noise), counts);
    EXPECT_GT(counts.admitted, 100u);
    EXPECT_GT(counts.refused, 50u);
    EXPECT_GE(static_cast<double>(counts.in_time), 0.95 * static_cast<double>(counts.admitted))
        << counts.in_time << " of " << counts.admitted;
    EXPECT_LE(static_cast<double>(counts.possible), 0.10 * static_cast<double>(counts.refused))
        << counts.possible << " of " << counts.refused;
  }
}

// The same arrivals, with clients that allow many times what they use, and wait for longer.
Load LooseLoad(std::uint32_t seed, double noise, bool changes) {
  Load load = DeadlineLoad(seed, noise);
  std::minstd_rand random(seed + 100);
  for (Ask& ask : load.asks) {
    // Mostly short and sometimes long; or for a while all long.
    const bool is_long = changes ? ask.state.sequence.value / 50 % 2 == 1 : random() % 8 == 0;
    ask.length = is_long ? static_cast<std::int32_t>(80 + random() % 150) : ask.state.max_tokens / 2 + 1;
    ask.state.max_tokens = 400;
    ask.state.deadline_ns += 5'000'000'000;
    ask.state.stop_tokens = {kStopToken};
  }
  return load;
}

// Those admitted would be late where answers were guessed to be short because they have been short so far (decision 0009).
TEST(PolicyTest, WhereAnswersEndEarlyTheAdmittedMakeItToo) {
  for (const bool changes : {false, true}) {
    for (const double noise : {0.0, 0.1}) {
      DeadlineCounts counts;
      for (std::uint32_t seed = 1; seed <= 3; ++seed) {
        const Load load = LooseLoad(seed, noise, changes);
        for (const auto& [id, end] : Play(load, DeadlinePolicy())) {
          counts.admitted += end.refused ? 0 : 1;
          counts.in_time += !end.refused && end.reason != FinishReason::kError && end.end_ns <= load.asks[id - 1].state.deadline_ns ? 1 : 0;
        }
      }
      EXPECT_GE(static_cast<double>(counts.in_time), 0.95 * static_cast<double>(counts.admitted))
          << counts.in_time << " of " << counts.admitted;
      EXPECT_GT(counts.admitted, 300u);
    }
  }
}

// The same load would be served differently twice, and no failure could be reproduced.
TEST(PolicyTest, TheSameLoadIsServedTheSameWay) {
  for (const Policy* policy : Policies()) {
    const auto ends = [&] {
      std::vector<std::int64_t> times;
      for (const auto& [id, end] : Play(MixedLoad(3), *policy)) times.push_back(end.end_ns);
      return times;
    };
    EXPECT_EQ(ends(), ends()) << policy->name();
  }
}

}  // namespace
}  // namespace skein::scheduler
