// SPDX-License-Identifier: Apache-2.0
//
// SimulatedExecutor predicts a step instead of computing it. The next token is a hash of all tokens of the sequence
// before it (with its seed and choice), so it depends on what a model's would depend on and on nothing else: how a prompt
// was cut, who else was in the step and whether the sequence was replayed cannot show. Scheduler and server tests use
// it, and the planner's simulator.
//
// The hashes live where keys would: in the places of the blocks. A row reads the past of its sequence through its block
// table and nowhere else, so a block that holds another prefix than the sequence's shows, as a wrong key would.
//
// It keeps what ranks keep (tables, samplers' parameters) and returns an error for a plan that breaks the rules: a
// position without a block, a place that was not written, blocks that do not continue each other, a write to a block that
// others hold too, a budget.
//
// With several stages and plans in flight it keeps the time of a pipe: a stage takes its part of a step, and the next step
// right behind it.
//
// Thread rule: as Executor.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "engine/executor.h"
#include "engine/stage_times.h"
#include "scheduler/step_cost.h"

namespace skein::engine {

class SimulatedExecutor final : public Executor {
 public:
  // Time passes on `clock`, when there is one: Wait moves it on to when the step has left the last stage. The predicted
  // time of a step is that of all stages together.
  SimulatedExecutor(ExecutorLimits limits, scheduler::StepCost cost, ManualClock* clock = nullptr, std::int32_t stages = 1);

  const ExecutorLimits& limits() const override { return limits_; }
  void Submit(const scheduler::StepPlan& plan) override;
  scheduler::StepResult Wait() override;
  void Recycle(scheduler::StepResult result) override;

  // The step of that number fails with `error`, for tests.
  void FailStep(StepId step, std::string error);
  // The token that comes after `tokens`: what a request's answer must be, whatever happens on the way.
  TokenId NextToken(const std::vector<TokenId>& tokens, std::uint64_t seed, std::int32_t choice) const;
  std::uint64_t sequences_known() const { return sequences_.size(); }
  const StageTimes& stage_times() const { return stages_; }

 private:
  struct Sequence {
    scheduler::SequenceStart start;
    std::vector<BlockId> blocks;
  };
  // What stands for the keys of a block.
  struct Block {
    std::uint32_t tables = 0;    // that have it
    std::int32_t written = 0;    // places, from the first one
    std::uint64_t before = 0;    // hash of all tokens before the block
  };

  std::string Apply(const scheduler::StepPlan& plan);
  std::string Compute(const scheduler::StepPlan& plan, scheduler::StepResult& result);
  std::string ChangeTable(const scheduler::BlockTableChange& change);
  void DropFrom(std::vector<BlockId>& blocks, std::size_t begin);
  void Forget(SequenceId sequence);
  std::string ReadPast(const Sequence& sequence, std::size_t first, std::uint64_t& hash) const;
  std::string Write(const Sequence& sequence, std::size_t position, std::uint64_t before, std::uint64_t hash);
  scheduler::RowResult& NextRow(scheduler::StepResult& result);
  scheduler::ScoredToken Sampled(const Sequence& sequence, std::uint64_t hash, const scheduler::PlanRow& row) const;
  scheduler::ScoredToken Scored(std::uint64_t hash, TokenId target, std::int32_t top) const;
  void AddTop(std::uint64_t hash, std::int32_t top, scheduler::ScoredToken& scored) const;

  ExecutorLimits limits_;
  scheduler::StepCost cost_;
  ManualClock* clock_;
  std::unordered_map<std::uint64_t, Sequence> sequences_;   // by SequenceId
  std::vector<Block> blocks_;
  std::vector<std::uint64_t> places_;                       // [blocks, block_tokens]: hash of the tokens up to each
  std::unordered_map<std::uint64_t, std::string> failures_;  // by StepId
  StageTimes stages_;
  std::int64_t now_ns_ = 0;                                 // without a clock
  std::vector<scheduler::StepResult> results_;              // in order of submission
  std::vector<std::int64_t> ready_ns_;                      // of each
  std::vector<scheduler::StepResult> spares_;               // storage of earlier ones
  std::vector<scheduler::RowResult> spare_rows_;
};

}  // namespace skein::engine
