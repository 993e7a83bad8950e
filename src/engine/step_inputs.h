// SPDX-License-Identifier: Apache-2.0
//
// StepInputs turns StepPlans into what the model computes with: it keeps every sequence's block table and sampler state
// from its start to its release, applies the plan's changes, resolves its tokens and lays its rows out as a Batch.
//
// Thread rule: the engine thread only. Room for the largest step is taken when it is made.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/executor.h"
#include "engine/sampler.h"
#include "model/decoder.h"
#include "model/kv_store.h"
#include "scheduler/step_plan.h"

namespace skein::engine {

class StepInputs {
 public:
  explicit StepInputs(const ExecutorLimits& limits);

  // Applies the plan and builds its batch. Returns what is wrong with the plan, or nothing. A plan may come from another
  // process, so nothing in it is trusted.
  std::string Build(const scheduler::StepPlan& plan, model::KvStore& kv);

  const model::Batch& batch() const { return batch_; }
  // The first of row `row`'s outputs in batch().outputs; of a pooled row its place in batch().hidden.
  std::int32_t FirstOutput(std::size_t row) const { return first_outputs_[row]; }
  // Requires: the sequence of a row of the plan that was built last.
  SamplerState& StateOf(SequenceId sequence) { return sequences_.find(sequence.value)->second.sampler; }

  // Remembers the tokens that a step sampled, by row (-1: none), for plans that refer to them.
  void Remember(StepId step, std::vector<TokenId> sampled);

 private:
  struct Sequence {
    std::vector<BlockId> blocks;
    SamplerState sampler;
  };

  std::string ApplyChanges(const scheduler::StepPlan& plan, model::KvStore& kv);
  std::string ChangeTable(const scheduler::BlockTableChange& change);
  std::string AddRow(const scheduler::PlanRow& row);
  // A token of the vocabulary, or -1.
  TokenId Resolve(const scheduler::PlannedToken& token) const;

  static constexpr std::size_t kRemembered = 4;  // steps
  struct Sampled {
    StepId step;
    std::vector<TokenId> tokens;  // by row
  };

  ExecutorLimits limits_;
  std::unordered_map<std::uint64_t, Sequence> sequences_;
  std::vector<Sampled> sampled_;  // of the last steps, the oldest first
  std::vector<TokenId> tokens_;
  std::vector<model::BatchRow> rows_;
  std::vector<std::int32_t> outputs_;
  std::vector<std::int32_t> hidden_;
  std::vector<std::int32_t> first_outputs_;
  model::Batch batch_;
};

}  // namespace skein::engine
