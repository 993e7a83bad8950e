// SPDX-License-Identifier: Apache-2.0
//
// Scheduler decides what runs next. PlanStep gives the next StepPlan: first one token for every answer that is running
// (so that running answers keep going), then chunks of prompts, then newly admitted sequences, within a budget of
// tokens, of output positions and of blocks. Commit takes the step's result in. What happened to sequences since the
// last look lies in events().
//
// When blocks run out, whoever the policy would serve last gives way (paused ones before all others): its block table is
// destroyed, it waits again, and later all its tokens, prompt and generated, are computed anew; its answer does not
// change. Blocks for all tokens known are taken at admission, so only running answers ever need more.
//
// Owned and called by the engine thread only (or by a simulation). Pure: no clock, threads, files or randomness. One
// plan at a time: PlanStep and Commit alternate. A step of running answers allocates nothing once storage has grown.
//
// Invariants: (1) a sequence is waiting (no blocks, ranks do not know it) or running; (2) a plan has at most one row of
// a sequence; (3) `running` never exceeds limits.sequences, so every running sequence finds a place in every step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "scheduler/block_pool.h"
#include "scheduler/policies/policy.h"
#include "scheduler/sequence_state.h"
#include "scheduler/step_plan.h"

namespace skein::scheduler {

struct SchedulerLimits {
  std::int32_t vocabulary = 0;
  std::int32_t context = 0;        // longest sequence; less when all blocks together hold less
  std::uint32_t blocks = 0;
  std::int32_t block_tokens = 0;
  std::int32_t step_tokens = 0;    // in one step
  std::int32_t step_outputs = 0;   // positions of one step whose logits are wanted
  std::int32_t sequences = 0;      // running at once; cut to step_tokens and step_outputs
};

struct SchedulerEvent {
  enum class Kind : std::uint8_t { kPrompt, kToken, kFinished };
  Kind kind = Kind::kToken;
  SequenceId sequence;
  std::int32_t index = 0;             // kToken: of the generated token
  std::int32_t first_position = 0;    // kPrompt
  ScoredToken token;                  // kToken
  std::vector<ScoredToken> scores;    // kPrompt
  std::vector<float> logits;          // kPrompt: [positions, vocabulary]
  FinishReason reason = FinishReason::kNone;  // kFinished
  std::string error;                  // kFinished with kError
  std::int32_t generated = 0;         // kFinished: tokens generated in all
};

class Scheduler {
 public:
  // Requires: all limits are positive.
  Scheduler(SchedulerLimits limits, const Policy& policy);
  ~Scheduler();

  // The longest sequence that can be served: prompt and answer together.
  std::int32_t capacity() const { return capacity_; }
  // What Add would say. Const and without state, so that any thread may ask.
  Status Check(const SequenceState& state) const;
  // Errors: kInvalidArgument, kLimit (with both numbers). Requires: the id is new.
  Status Add(SequenceState state, std::int64_t now_ns);
  // Ends it with kCancelled; nothing when it is unknown. During a step: once the step is committed.
  void Cancel(SequenceId sequence);
  // A paused sequence gets no rows and is the first to give way.
  void SetPaused(SequenceId sequence, bool paused);

  // The next step. Without rows there is nothing to do, and Commit must not be called. Valid until the next PlanStep.
  const StepPlan& PlanStep(std::int64_t now_ns);
  // Takes in the result of the last plan. A result with an error, or one that does not fit the plan, ends every sequence
  // that has a row in the plan with kError, and nobody else.
  void Commit(const StepPlan& plan, StepResult result);

  // In order of what happened; the caller clears it.
  std::vector<SchedulerEvent>& events() { return events_; }

  std::size_t running_count() const { return running_.size(); }
  std::size_t waiting_count() const { return waiting_.size(); }
  std::size_t paused_count() const { return paused_count_; }
  std::uint64_t preemption_count() const { return preemption_count_; }
  const BlockPool& pool() const { return pool_; }
  const SequenceState* Find(SequenceId sequence) const;

 private:
  struct Sequence;
  struct Chunk {
    std::int32_t count = 0;
    Output output = Output::kNone;
  };
  struct IdHash {
    std::size_t operator()(SequenceId id) const { return std::hash<std::uint64_t>()(id.value); }
  };

  void Sort(std::vector<Sequence*>& sequences) const;
  void Recycle();
  void ExpireDeadlines(std::int64_t now_ns);
  void PlanRunning(bool answers);
  void PlanAdmissions();
  bool MakeRoom(Sequence& sequence, std::uint32_t blocks);
  Sequence* LastInOrder(bool paused) const;
  void Preempt(Sequence& sequence);
  void Forget(Sequence& sequence);
  Chunk NextChunk(const Sequence& sequence) const;
  void AddRow(Sequence& sequence, Chunk chunk);
  void AddStart(const Sequence& sequence);
  std::uint32_t BlocksFor(std::int64_t tokens) const;
  std::string WhyUnfit(const StepPlan& plan, const StepResult& result) const;
  void CommitRow(Sequence& sequence, const PlanRow& row, RowResult* result);
  void CommitToken(Sequence& sequence, ScoredToken token);
  void Finish(Sequence& sequence, FinishReason reason, std::string error = "");

  const SchedulerLimits limits_;
  const Policy& policy_;
  const std::int32_t capacity_;
  BlockPool pool_;  // before sequences_: tables give blocks back to it
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>, IdHash> sequences_;
  std::vector<Sequence*> running_;
  std::vector<Sequence*> waiting_;
  std::vector<SequenceId> releases_;  // of the next plan
  std::vector<SchedulerEvent> events_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t preemption_count_ = 0;
  std::size_t paused_count_ = 0;
  bool has_deadlines_ = false;

  // The plan in the making or in flight.
  StepPlan plan_;
  std::vector<PlanRow> spare_rows_;              // storage of earlier plans
  std::vector<BlockTableChange> spare_changes_;
  std::int32_t tokens_left_ = 0;
  std::int32_t outputs_left_ = 0;
  bool in_flight_ = false;
};

}  // namespace skein::scheduler
