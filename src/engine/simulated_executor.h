// SPDX-License-Identifier: Apache-2.0
//
// SimulatedExecutor predicts a step instead of computing it. The next token is a hash of all tokens of the sequence
// before it (with its seed and choice), so it depends on what a model's would depend on and on nothing else: how a prompt
// was cut, who else was in the step and whether the sequence was replayed cannot show. Scheduler and server tests use
// it, and the planner's simulator.
//
// It keeps what ranks keep (tables, positions computed) and returns an error for a plan that breaks the rules: a row that
// does not go on where the sequence's positions end, a position without a block, a block of two sequences, a budget.
//
// Thread rule: as Executor.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "engine/executor.h"
#include "scheduler/step_cost.h"

namespace skein::engine {

class SimulatedExecutor final : public Executor {
 public:
  // Time passes on `clock`, when there is one: Wait moves it on by the predicted time of the step.
  SimulatedExecutor(ExecutorLimits limits, scheduler::StepCost cost, ManualClock* clock = nullptr);

  const ExecutorLimits& limits() const override { return limits_; }
  void Submit(const scheduler::StepPlan& plan) override;
  scheduler::StepResult Wait() override;

  // The step of that number fails with `error`, for tests.
  void FailStep(StepId step, std::string error);
  // The token that comes after `tokens`: what a request's answer must be, whatever happens on the way.
  TokenId NextToken(const std::vector<TokenId>& tokens, std::uint64_t seed, std::int32_t choice) const;
  std::uint64_t sequences_known() const { return sequences_.size(); }

 private:
  struct Sequence {
    scheduler::SequenceStart start;
    std::vector<BlockId> blocks;
    std::vector<std::uint64_t> hashes;  // [positions computed + 1]: of the tokens before each position
  };

  std::string Apply(const scheduler::StepPlan& plan);
  std::string Compute(const scheduler::StepPlan& plan, scheduler::StepResult& result);
  std::string ChangeTable(const scheduler::BlockTableChange& change);
  void Forget(SequenceId sequence);
  scheduler::ScoredToken Sampled(const Sequence& sequence, std::uint64_t hash, const scheduler::PlanRow& row) const;
  scheduler::ScoredToken Scored(std::uint64_t hash, TokenId target, std::int32_t top) const;
  void AddTop(std::uint64_t hash, std::int32_t top, scheduler::ScoredToken& scored) const;

  ExecutorLimits limits_;
  scheduler::StepCost cost_;
  ManualClock* clock_;
  std::unordered_map<std::uint64_t, Sequence> sequences_;   // by SequenceId
  std::vector<std::uint64_t> block_owner_;                  // 0: nobody, else SequenceId + 1
  std::unordered_map<std::uint64_t, std::string> failures_;  // by StepId
  std::deque<scheduler::StepResult> results_;
};

}  // namespace skein::engine
