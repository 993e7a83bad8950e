// SPDX-License-Identifier: Apache-2.0
//
// Planning: whose turn it is. Who comes in is in scheduler_admit.cc, what rows say in scheduler_rows.cc, and what happens
// between steps in scheduler_commit.cc.
#include "scheduler/scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "scheduler/sequence.h"
#include "scheduler/step_budget.h"

namespace skein::scheduler {
const StepPlan& Scheduler::PlanStep(std::int64_t now_ns) {
  SKEIN_CHECK(in_flight_ < flights_.size());
  Flight& flight = flights_[(first_flight_ + in_flight_) % flights_.size()];
  Begin(flight);
  if (in_flight_ > 0 && flights_[first_flight_].is_void) return *plan_;  // what ranks hold is known when all are back
  ExpireDeadlines(now_ns);
  tokens_left_ = limits_.step_tokens;
  outputs_left_ = limits_.step_outputs;
  FollowService(0);
  Sort(running_);
  Sort(waiting_);
  MakeWay();
  PlanAnswers();
  CutPrompts();
  Sort(waiting_);  // some may have given way
  PlanPrompts();
  std::erase_if(running_, [](const Sequence* sequence) { return !sequence->running; });  // those that gave way
  std::erase_if(waiting_, [](const Sequence* sequence) { return sequence->running; });
  if (plan_->rows.empty()) return *plan_;  // releases can wait for a plan that has rows
  plan_->releases.swap(releases_);
  for (Sequence* sequence : running_) {
    // A block that was exchanged for the index's (IndexComputed) may be another sequence's by now: ranks hear of it also
    // when the sequence has no row.
    if (sequence->planned_in != making_ && sequence->started && sequence->blocks_sent < sequence->table.count()) {
      AddChange(*sequence);
    }
  }
  plan_->step = making_;
  ++making_.value;
  ++in_flight_;
  return *plan_;
}

// Empties the plan of an earlier step, but keeps the storage of its rows, and begins the next one in it.
void Scheduler::Begin(Flight& flight) {
  flight.is_void = false;
  plan_ = &flight.plan;
  for (PlanRow& row : plan_->rows) spare_rows_.push_back(std::move(row));
  for (BlockTableChange& change : plan_->changes) spare_changes_.push_back(std::move(change));
  plan_->rows.clear();
  plan_->changes.clear();
  plan_->starts.clear();
  plan_->releases.clear();
  plan_->copies.clear();
  plan_->masks.clear();
  room_comes_ = false;
  for (Sequence* sequence : running_) sequence->held_back = false;
}

// Whether a sequence may have a row in the plan in the making, which has none of it yet.
bool Scheduler::MayHaveRow(const Sequence& sequence) const {
  return sequence.running && !sequence.paused && sequence.planned_in != making_ && !sequence.awaits &&
         !sequence.held_back && sequence.ends == FinishReason::kNone;
}

// The same for a chunk of its prompt, or of its replay.
bool Scheduler::MayHaveChunk(const Sequence& sequence) const {
  return MayHaveRow(sequence) && sequence.taken < sequence.size() && !sequence.answers_at(sequence.taken);
}

void Scheduler::Sort(std::vector<Sequence*>& sequences, std::size_t begin) const {
  const auto before = [this](const Sequence* a, const Sequence* b) {
    return policy_.IsBefore(a->candidate, b->candidate);
  };
  const auto first = sequences.begin() + static_cast<std::ptrdiff_t>(begin);
  if (!std::is_sorted(first, sequences.end(), before)) std::sort(first, sequences.end(), before);
}

// Shows policies what tenants have had by now, and puts those waiting from `waiting_begin` on in order again.
void Scheduler::FollowService(std::size_t waiting_begin) {
  if (!policy_.FollowsService()) return;
  for (Sequence* sequence : running_) sequence->candidate.service = sequence->tenant->service;
  for (Sequence* sequence : waiting_) sequence->candidate.service = sequence->tenant->service;
  Sort(waiting_, waiting_begin);
}

// One token for each running answer, or for this plan's share of them.
void Scheduler::PlanAnswers() {
  const auto share = static_cast<std::size_t>(ShareOfAnswers());
  for (Sequence* sequence : running_) {
    if (plan_->rows.size() == share) return;
    if (!MayHaveRow(*sequence) || !sequence->answers_at(sequence->taken)) continue;
    const Chunk chunk = NextChunk(*sequence);
    if (chunk.count == 0) continue;
    if (MakeRoom(*sequence, BlocksFor(sequence->taken + chunk.count))) AddRow(*sequence, chunk);
  }
}

// Leaves as many tokens for prompts as keep the step short enough for the answers in it, or beside it in other plans.
void Scheduler::CutPrompts() {
  const StepShape answers = plan_->rows.empty() ? AnswersBeside() : ShapeOf(*plan_);
  if (limits_.step_target_ns != 0 && answers.rows > 0) {
    // The first prompt that goes on says how deep in its context a chunk is; others are as dear or cheaper.
    const auto first = std::ranges::find_if(running_, [this](const Sequence* each) { return MayHaveChunk(*each); });
    const std::int64_t position = first == running_.end() ? 0 : (*first)->taken;
    tokens_left_ = static_cast<std::int32_t>(PromptBudget(cost_, answers, position, tokens_left_, limits_.step_target_ns));
  }
  tokens_left_ = std::min(tokens_left_, ShareOfPrompts());
}

// Chunks of prompts and replays, those that run and those that wait as one list in the policy's order.
void Scheduler::PlanPrompts() {
  const std::size_t running_end = running_.size();  // behind it: admitted now
  std::size_t next_running = 0, next_waiting = 0;
  bool admits = true;
  while (tokens_left_ > 0) {
    Sequence* running = nullptr;
    for (; next_running < running_end && running == nullptr; ++next_running) {
      Sequence* each = running_[next_running];
      if (MayHaveChunk(*each)) running = each;
    }
    while (admits && next_waiting < waiting_.size()) {
      Sequence* waiting = waiting_[next_waiting];
      if (running != nullptr && policy_.IsBefore(running->candidate, waiting->candidate)) break;
      ++next_waiting;
      if (waiting->paused) continue;
      const Admission admission = TryAdmit(*waiting);
      admits = admission != Admission::kFull;
      if (admission == Admission::kDone) FollowService(next_waiting);
      if (tokens_left_ == 0) return;
    }
    if (running == nullptr) return;
    const Chunk chunk = NextChunk(*running);
    if (chunk.count > 0 && MakeRoom(*running, BlocksFor(running->taken + chunk.count))) AddRow(*running, chunk);
  }
}

// Grows the table of a running sequence to `blocks`, taking blocks from those that are served last. False when the
// sequence itself had to give way, or has to wait until those in flight can.
bool Scheduler::MakeRoom(Sequence& sequence, std::uint32_t blocks) {
  while (!sequence.table.TryGrow(blocks)) {
    if (room_comes_) return false;
    Sequence* victim = LastInOrder(/*paused=*/true);
    if (victim == nullptr) victim = LastInOrder(/*paused=*/false);
    SKEIN_CHECK(victim != nullptr);
    if (!GiveWay(*victim) || victim == &sequence) return false;
  }
  return true;
}

// Of the running sequences without a row in this plan that have not been asked to give way, the one that is served last.
Scheduler::Sequence* Scheduler::LastInOrder(bool paused) const {
  Sequence* last = nullptr;
  for (Sequence* sequence : running_) {
    if (!sequence->running || sequence->planned_in == making_ || sequence->held_back || sequence->paused != paused) continue;
    if (last == nullptr || policy_.IsBefore(last->candidate, sequence->candidate)) last = sequence;
  }
  return last;
}

// Preempts a running sequence. False when it has rows in flight: it gets no more then, and is asked again later.
bool Scheduler::GiveWay(Sequence& sequence) {
  if (sequence.rows_in_flight > 0) {
    sequence.held_back = true;
    room_comes_ = true;
    return false;
  }
  Preempt(sequence);
  return true;
}

// Makes a running sequence a waiting one. It stays in running_ until the plan is made.
void Scheduler::Preempt(Sequence& sequence) {
  SKEIN_CHECK(sequence.rows_in_flight == 0);
  sequence.running = false;
  Forget(sequence);
  waiting_.push_back(&sequence);
  ++counts_.preemptions;
}

// Gives back its blocks; ranks forget it with the next plan.
void Scheduler::Forget(Sequence& sequence) {
  sequence.table.Clear();
  sequence.blocks_sent = 0;
  sequence.computed = 0;
  sequence.taken = 0;
  sequence.held_back = false;
  sequence.indexed = 0;
  if (sequence.started) releases_.push_back(sequence.state.sequence);
  sequence.started = false;
}

std::uint32_t Scheduler::BlocksFor(std::int64_t tokens) const {
  return static_cast<std::uint32_t>((tokens + limits_.block_tokens - 1) / limits_.block_tokens);
}

}  // namespace skein::scheduler
