// SPDX-License-Identifier: Apache-2.0
//
// Equal parts: with several plans in flight, how much of the waiting work the plan in the making takes. One that took all
// would leave the others empty, and a stage of the model idle for every empty one. With one plan in flight there is
// nothing to share.
#include <algorithm>
#include <limits>

#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"
#include "scheduler/step_budget.h"

namespace skein::scheduler {
namespace {

constexpr std::int32_t kAll = std::numeric_limits<std::int32_t>::max();

std::int32_t PartOf(std::int64_t work, std::size_t plans) {
  return static_cast<std::int32_t>((work + static_cast<std::int64_t>(plans) - 1) / static_cast<std::int64_t>(plans));
}

}  // namespace

// Of the answers that can go on, those for this plan. Plans that are still to be made get as many each; and no plan gets
// more than its part of all answers, so that parts that have become unequal grow equal again. Nobody waits longer than for
// one round of plans, since as many plans of that size have room for all.
std::int32_t Scheduler::ShareOfAnswers() const {
  if (flights_.size() == 1) return kAll;
  std::int64_t ready = 0, all = 0;
  for (const Sequence* each : running_) {
    if (each->paused || each->reports() || each->ends != FinishReason::kNone) continue;
    const bool is_ready = MayHaveRow(*each) && each->answers_at(each->taken);
    ready += is_ready ? 1 : 0;
    all += is_ready || each->awaits ? 1 : 0;
  }
  return std::min(PartOf(ready, flights_.size() - in_flight_), PartOf(all, flights_.size()));
}

// Tokens of prompts for this plan: an equal part of what runs or waits for each plan that is still to be made.
std::int32_t Scheduler::ShareOfPrompts() const {
  if (flights_.size() == 1) return kAll;
  const std::size_t plans = flights_.size() - in_flight_;
  const std::int64_t enough = static_cast<std::int64_t>(plans) * limits_.step_tokens;
  std::int64_t tokens = 0;
  for (const Sequence* each : running_) {
    if (MayHaveChunk(*each)) tokens += each->size() - each->taken;
  }
  for (std::size_t i = 0; i < waiting_.size() && tokens < enough; ++i) {
    if (!waiting_[i]->paused) tokens += waiting_[i]->size();
  }
  return static_cast<std::int32_t>(std::min<std::int64_t>(PromptPart(cost_, PartOf(std::min(tokens, enough), plans)), kAll));
}

// The answers of the newest plan in flight that has some: they wait when a plan behind theirs takes long.
StepShape Scheduler::AnswersBeside() const {
  StepShape shape;
  for (std::size_t i = in_flight_; i > 0 && shape.rows == 0; --i) {
    for (const PlanRow& row : flights_[(first_flight_ + i - 1) % flights_.size()].plan.rows) {
      if (row.output != Output::kSample || row.tokens.size() != 1) continue;
      shape = WithChunk(shape, row.first_position, 1);
      shape.outputs += 1;
    }
  }
  return shape;
}

}  // namespace skein::scheduler
