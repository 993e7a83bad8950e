// SPDX-License-Identifier: Apache-2.0
//
// Scheduler decides what runs next. PlanStep gives the next StepPlan: first one token for every answer that is running
// (so that running answers keep going), then chunks of prompts, running or newly admitted in the policy's order, within
// a budget of tokens, of output positions and of blocks. Commit takes the step's result in. What happened to sequences
// since the last look lies in events().
//
// While answers run, the prompts' part of a step is cut so that the step is predicted to take no longer than
// max(4 * the answers alone, step_target_ns): answers stay smooth while prompts stream in. The prediction learns from
// measured steps (step_cost.h). No cut ever changes an answer.
//
// Full blocks are entered in the prefix index once computed, and a sequence that begins with known blocks starts behind
// them. One that shares at least 64 tokens more with a prompt that is just being computed waits for that one.
//
// When blocks run out, cached ones go first. Then whoever the policy would serve last gives way (paused ones before all
// others): its block table is destroyed, it waits again, and later its tokens, prompt and generated, are computed anew as
// far as the index lost them; its answer does not change. Blocks for all tokens known are taken at admission, so only
// running answers ever need more.
//
// Several plans may be in flight, for a model that is cut into stages: each holds other sequences, or the next chunk of a
// prompt, and about an equal part of the waiting work (scheduler_share.cc). Ranks keep the plans' order, so a chunk finds
// the keys of the one before it. Whoever waits for a result that says what comes next has no row until Commit has it.
//
// Owned and called by the engine thread only (or by a simulation). Pure: no clock, threads, files or randomness. A step
// of running answers allocates nothing once storage has grown.
//
// Invariants: (1) a sequence is waiting (no blocks, ranks do not know it) or running; (2) a plan has at most one row of
// a sequence; (3) `running` never exceeds limits.sequences, so every running sequence finds a place in every step;
// (4) a block with an entry in the index is never written again; (5) a sequence with rows in flight keeps its blocks:
// it ends, or gives way, once they are back; (6) the index knows what was committed, and nothing that is in flight.
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
#include "scheduler/prefix_index.h"
#include "scheduler/sequence_state.h"
#include "scheduler/step_cost.h"
#include "scheduler/step_plan.h"
#include "scheduler/tenants.h"

namespace skein::scheduler {

struct SchedulerLimits {
  std::int32_t vocabulary = 0;
  std::int32_t context = 0;        // longest sequence; less when all blocks together hold less
  std::uint32_t blocks = 0;
  std::int32_t block_tokens = 0;
  std::int32_t step_tokens = 0;    // in one step
  std::int32_t step_outputs = 0;   // positions of one step whose logits are wanted
  std::int32_t sequences = 0;      // running at once; cut to step_tokens and step_outputs
  std::int32_t plans_in_flight = 1;  // that may wait for their Commit
  std::int64_t step_target_ns = 0;  // while answers run, prompts are cut to steps of about this; 0: never
  StepCost cost = {};              // what to predict by until steps were measured
  bool prefix_cache = true;
  HashSecret prefix_secret = {};   // of the prefix index; nobody outside should know it
  std::string prefix_fingerprint = {};  // names model, arithmetic and KV type
};

// Counted since the start.
struct SchedulerCounts {
  std::uint64_t preemptions = 0;
  std::uint64_t prefix_queries = 0;  // tokens that were looked up in the prefix index at first admission
  std::uint64_t prefix_hits = 0;     // and of these, found
  std::uint64_t refusals = 0;        // by Add, for a deadline
  std::uint64_t prefix_waits = 0;    // steps in which a sequence waited for its prefix
  friend bool operator==(const SchedulerCounts&, const SchedulerCounts&) = default;
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
  std::vector<float> hidden;          // kPrompt: the pooled vector
  FinishReason reason = FinishReason::kNone;  // kFinished
  std::string error;                  // kFinished with kError
  std::int32_t generated = 0;         // kFinished: tokens generated in all
  std::int32_t cached = 0;            // kFinished: prompt tokens that were found in the prefix index
};

class Scheduler {
 public:
  // Requires: all limits are positive.
  Scheduler(SchedulerLimits limits, const Policy& policy);
  ~Scheduler();

  // The longest sequence that can be served: prompt and answer together.
  std::int32_t capacity() const { return capacity_; }
  // What Add would say. Const and without state, so that any thread may ask.
  Status Check(const SequenceState& state) const { return CheckFor(state, limits_.vocabulary, capacity_); }
  // What a scheduler of that vocabulary and capacity would say.
  static Status CheckFor(const SequenceState& state, std::int32_t vocabulary, std::int32_t capacity);
  // Errors: kInvalidArgument, kLimit (with both numbers), kUnavailable when the policy refuses what would miss its deadline
  // or make another one miss its own. Requires: the id is new.
  Status Add(SequenceState state, std::int64_t now_ns);
  // Ends it with kCancelled; nothing when it is unknown. With rows in flight: once their plans are committed.
  void Cancel(SequenceId sequence);
  // A paused sequence gets no rows and is the first to give way.
  void SetPaused(SequenceId sequence, bool paused);

  // The next step. Without rows there is nothing to do (until a plan in flight is committed), and Commit must not be
  // called. Valid until Commit and the next PlanStep. Requires: fewer than limits.plans_in_flight wait for their Commit.
  const StepPlan& PlanStep(std::int64_t now_ns);
  // Takes in the result of the oldest plan in flight. A result with an error, or one that does not fit the plan, ends
  // every sequence that has a row in the plan with kError, and nobody else. Plans in flight behind it were made as if it
  // had not failed: their results are dropped, their sequences computed anew, and PlanStep gives nothing until all of
  // them are back. What is taken from the result is moved out of it; its storage stays with the caller.
  void Commit(const StepPlan& plan, StepResult&& result);

  // In order of what happened; the caller clears it.
  std::vector<SchedulerEvent>& events() { return events_; }

  std::size_t in_flight_count() const { return in_flight_; }
  std::size_t running_count() const { return running_.size(); }
  std::size_t waiting_count() const { return waiting_.size(); }
  std::size_t paused_count() const { return paused_count_; }
  std::uint64_t preemption_count() const { return counts_.preemptions; }
  const SchedulerCounts& counts() const { return counts_; }
  const StepCost& step_cost() const { return cost_; }
  const BlockPool& pool() const { return pool_; }
  // Internal fragmentation: places in held blocks that are for no token known yet; less than a block for each sequence.
  std::uint64_t UnusedPlaces() const;
  // Checks what tables, pool and index say of each other; for simulations.
  void CheckBlocks() const;
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

  struct Flight {
    StepPlan plan;
    bool is_void = false;  // a plan before it failed
  };

  enum class Admission : std::uint8_t { kDone, kLater, kFull };

  void Sort(std::vector<Sequence*>& sequences, std::size_t begin = 0) const;
  void FollowService(std::size_t waiting_begin);
  void Begin(Flight& flight);
  bool MayHaveRow(const Sequence& sequence) const;
  bool MayHaveChunk(const Sequence& sequence) const;
  void ExpireDeadlines(std::int64_t now_ns);

  // scheduler.cc
  void PlanAnswers();
  void CutPrompts();
  void PlanPrompts();
  bool MakeRoom(Sequence& sequence, std::uint32_t blocks);
  bool GiveWay(Sequence& sequence);
  void Preempt(Sequence& sequence);
  void Forget(Sequence& sequence);
  Sequence* LastInOrder(bool paused) const;

  // scheduler_share.cc
  std::int32_t ShareOfAnswers() const;
  std::int32_t ShareOfPrompts() const;
  StepShape AnswersBeside() const;

  // scheduler_admit.cc
  void MakeWay();
  Admission TryAdmit(Sequence& sequence);
  void Admit(Sequence& sequence, std::uint32_t blocks);
  std::size_t RunningCount() const;
  std::uint32_t GoingOn() const;
  std::uint32_t Reserve() const;
  void FindPrefix(Sequence& sequence);
  std::uint32_t CachedFound() const;
  bool WaitsForPrefix(Sequence& sequence) const;
  void ExtendHashes(Sequence& sequence) const;
  void IndexComputed(Sequence& sequence);

  // scheduler_deadline.cc
  Status CheckDeadline(Sequence& newcomer, std::int64_t now_ns);

  // scheduler_rows.cc
  Chunk NextChunk(const Sequence& sequence) const;
  void AddRow(Sequence& sequence, Chunk chunk);
  void AddChange(Sequence& sequence);
  void AddStart(const Sequence& sequence);

  std::uint32_t BlocksFor(std::int64_t tokens) const;
  std::string WhyUnfit(const StepPlan& plan, const StepResult& result) const;
  Sequence& TakeBack(const PlanRow& row);
  void GiveUp(const StepPlan& plan, const std::string& error);
  void CommitRow(Sequence& sequence, const PlanRow& row, RowResult* result);
  void CommitToken(Sequence& sequence, ScoredToken token);
  void End(Sequence& sequence, FinishReason reason, std::string error = "");
  void Finish(Sequence& sequence, FinishReason reason, std::string error = "");

  const SchedulerLimits limits_;
  const Policy& policy_;
  const std::int32_t capacity_;
  std::unique_ptr<PrefixIndex> index_;  // null: off. Before pool_, which tells it what is evicted
  BlockPool pool_;                      // before sequences_: tables give blocks back to it
  Tenants tenants_;
  StepCost cost_;
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>, IdHash> sequences_;
  std::vector<Sequence*> running_;
  std::vector<Sequence*> waiting_;
  std::vector<SequenceId> releases_;  // of the next plan
  std::vector<SchedulerEvent> events_;
  std::uint64_t arrivals_ = 0;
  SchedulerCounts counts_;
  std::size_t paused_count_ = 0;
  bool has_deadlines_ = false;

  // A ring: `in_flight_` plans from `first_flight_` on wait for their Commit, the one in the making is behind them.
  std::vector<Flight> flights_;
  std::size_t first_flight_ = 0, in_flight_ = 0;

  // Of the plan in the making.
  StepPlan* plan_ = nullptr;
  StepId making_ = {1};      // its number, if it gets rows
  bool room_comes_ = false;  // somebody in flight gives way once its rows are back
  std::vector<PlanRow> spare_rows_;              // storage of earlier plans
  std::vector<BlockTableChange> spare_changes_;
  std::vector<BlockId> found_;                   // of the sequence that is being admitted
  std::int32_t tokens_left_ = 0;
  std::int32_t outputs_left_ = 0;
};

}  // namespace skein::scheduler
