// SPDX-License-Identifier: Apache-2.0
//
// Planning. What comes in and goes out between steps is in scheduler_commit.cc.
#include "scheduler/scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "scheduler/sequence.h"

namespace skein::scheduler {

const StepPlan& Scheduler::PlanStep(std::int64_t now_ns) {
  SKEIN_CHECK(!in_flight_);
  Recycle();
  ExpireDeadlines(now_ns);
  tokens_left_ = limits_.step_tokens;
  outputs_left_ = limits_.step_outputs;
  Sort(running_);
  PlanRunning(/*answers=*/true);
  PlanRunning(/*answers=*/false);
  std::erase_if(running_, [](const Sequence* sequence) { return !sequence->running; });  // those that gave way
  PlanAdmissions();
  if (plan_.rows.empty()) return plan_;  // releases can wait for a plan that has rows
  plan_.releases.swap(releases_);
  ++plan_.step.value;
  in_flight_ = true;
  return plan_;
}

// Empties the last plan but keeps the storage of its rows.
void Scheduler::Recycle() {
  for (const PlanRow& row : plan_.rows) {
    if (const auto found = sequences_.find(row.sequence); found != sequences_.end()) found->second->planned = false;
  }
  for (PlanRow& row : plan_.rows) spare_rows_.push_back(std::move(row));
  for (BlockTableChange& change : plan_.changes) spare_changes_.push_back(std::move(change));
  plan_.rows.clear();
  plan_.changes.clear();
  plan_.starts.clear();
  plan_.releases.clear();
  plan_.copies.clear();
  plan_.masks.clear();
}

void Scheduler::Sort(std::vector<Sequence*>& sequences) const {
  const auto before = [this](const Sequence* a, const Sequence* b) {
    return policy_.IsBefore(a->candidate, b->candidate);
  };
  if (!std::is_sorted(sequences.begin(), sequences.end(), before)) std::sort(sequences.begin(), sequences.end(), before);
}

// Rows for running sequences: of answers, or of prompts and replays.
void Scheduler::PlanRunning(bool answers) {
  for (Sequence* sequence : running_) {
    if (!sequence->running || sequence->paused || sequence->planned) continue;
    if (sequence->answers() != answers) continue;
    const Chunk chunk = NextChunk(*sequence);
    if (chunk.count == 0) continue;
    if (MakeRoom(*sequence, BlocksFor(sequence->computed + chunk.count))) AddRow(*sequence, chunk);
  }
}

// Waiting sequences start in the policy's order; one that does not fit holds up those behind it, so that it is not
// overtaken for ever. One free block for each running answer is left, so that it is not preempted right away.
void Scheduler::PlanAdmissions() {
  Sort(waiting_);
  for (std::size_t i = 0; i < waiting_.size(); ++i) {  // Preempt appends to it
    Sequence* sequence = waiting_[i];
    if (sequence->paused) continue;
    const Chunk chunk = NextChunk(*sequence);
    if (chunk.count == 0) break;
    if (running_.size() >= static_cast<std::size_t>(limits_.sequences)) {
      Sequence* paused = LastInOrder(/*paused=*/true);
      if (paused == nullptr) break;
      Preempt(*paused);
      std::erase(running_, paused);
    }
    const auto going_on = static_cast<std::uint32_t>(
        std::count_if(running_.begin(), running_.end(), [](const Sequence* other) { return !other->paused; }));
    const std::uint32_t blocks = BlocksFor(sequence->size());
    while (pool_.free_count() < blocks + going_on) {
      Sequence* paused = LastInOrder(/*paused=*/true);
      if (paused == nullptr) break;
      Preempt(*paused);
      std::erase(running_, paused);
    }
    const bool fits = pool_.free_count() >= blocks + going_on || going_on == 0;
    if (!fits || !sequence->table.TryGrow(blocks)) break;
    sequence->running = true;
    running_.push_back(sequence);
    AddRow(*sequence, chunk);
  }
  std::erase_if(waiting_, [](const Sequence* sequence) { return sequence->running; });
}

// Grows the table of a running sequence to `blocks`, taking blocks from those that are served last. False when the
// sequence itself had to give way.
bool Scheduler::MakeRoom(Sequence& sequence, std::uint32_t blocks) {
  while (!sequence.table.TryGrow(blocks)) {
    Sequence* victim = LastInOrder(/*paused=*/true);
    if (victim == nullptr) victim = LastInOrder(/*paused=*/false);
    SKEIN_CHECK(victim != nullptr);
    Preempt(*victim);
    if (victim == &sequence) return false;
  }
  return true;
}

// Of the running sequences without a row in this plan, the one that is served last.
Scheduler::Sequence* Scheduler::LastInOrder(bool paused) const {
  Sequence* last = nullptr;
  for (Sequence* sequence : running_) {
    if (!sequence->running || sequence->planned || sequence->paused != paused) continue;
    if (last == nullptr || policy_.IsBefore(last->candidate, sequence->candidate)) last = sequence;
  }
  return last;
}

// Makes a running sequence a waiting one. The caller drops it from running_.
void Scheduler::Preempt(Sequence& sequence) {
  SKEIN_CHECK(!sequence.planned);
  sequence.running = false;
  Forget(sequence);
  waiting_.push_back(&sequence);
  ++preemption_count_;
}

// Gives back its blocks; ranks forget it with the next plan.
void Scheduler::Forget(Sequence& sequence) {
  sequence.table.Clear();
  sequence.blocks_sent = 0;
  sequence.computed = 0;
  if (sequence.started) releases_.push_back(sequence.state.sequence);
  sequence.started = false;
}

std::uint32_t Scheduler::BlocksFor(std::int64_t tokens) const {
  return static_cast<std::uint32_t>((tokens + limits_.block_tokens - 1) / limits_.block_tokens);
}

// What the sequence can do next within what is left of the budgets. One row has one kind of output, so a chunk ends
// where the kind changes.
Scheduler::Chunk Scheduler::NextChunk(const Sequence& sequence) const {
  const std::int32_t first = sequence.computed;
  if (sequence.reports() && first >= sequence.reported) {
    SKEIN_CHECK(first == sequence.reported);
    const Output output = sequence.state.prompt_output == PromptOutput::kScores ? Output::kScore : Output::kLogits;
    return {.count = std::min({sequence.report_end() - first, tokens_left_, outputs_left_}), .output = output};
  }
  if (sequence.reports()) {  // a replay up to where reporting goes on
    return {.count = std::min(sequence.reported - first, tokens_left_)};
  }
  Chunk chunk{.count = std::min(sequence.size() - first, tokens_left_)};
  if (first + chunk.count == sequence.size() && sequence.generates()) {
    if (outputs_left_ == 0) {
      --chunk.count;  // the last token waits for an output place
    } else {
      chunk.output = Output::kSample;
    }
  }
  return chunk;
}

void Scheduler::AddRow(Sequence& sequence, Chunk chunk) {
  if (!sequence.started) AddStart(sequence);
  sequence.started = true;
  sequence.planned = true;
  if (sequence.table.count() > sequence.blocks_sent) {
    if (spare_changes_.empty()) spare_changes_.emplace_back();
    BlockTableChange& change = plan_.changes.emplace_back(std::move(spare_changes_.back()));
    spare_changes_.pop_back();
    change.sequence = sequence.state.sequence;
    change.keep = sequence.blocks_sent;
    change.append.clear();
    sequence.table.AppendRunsFrom(sequence.blocks_sent, change.append);
    sequence.blocks_sent = sequence.table.count();
  }
  if (spare_rows_.empty()) spare_rows_.emplace_back();
  PlanRow& row = plan_.rows.emplace_back(std::move(spare_rows_.back()));
  spare_rows_.pop_back();
  row.sequence = sequence.state.sequence;
  row.first_position = sequence.computed;
  row.output = chunk.output;
  row.top = 0;
  row.logprob = false;
  row.tokens.clear();
  row.targets.clear();
  const TokenId* tokens = sequence.state.tokens.data() + sequence.computed;
  for (std::int32_t i = 0; i < chunk.count; ++i) row.tokens.push_back({.literal = tokens[i]});
  if (chunk.output == Output::kScore) row.targets.assign(tokens + 1, tokens + 1 + chunk.count);
  if (chunk.output == Output::kScore || chunk.output == Output::kSample) row.top = sequence.state.top_logprobs;
  if (chunk.output == Output::kSample) row.logprob = sequence.state.logprobs || row.top > 0;
  tokens_left_ -= chunk.count;
  if (chunk.output == Output::kSample) outputs_left_ -= 1;
  if (chunk.output == Output::kScore || chunk.output == Output::kLogits) outputs_left_ -= chunk.count;
}

void Scheduler::AddStart(const Sequence& sequence) {
  const SequenceState& state = sequence.state;
  const SamplingParameters& sampling = state.sampling;
  SequenceStart& start = plan_.starts.emplace_back();
  start.sequence = state.sequence;
  start.sampling = sampling;
  start.choice = state.choice;
  start.prompt_tokens = state.prompt_tokens;
  const auto generated = state.tokens.begin() + state.prompt_tokens;
  const bool repetition = sampling.repetition_penalty != 1.0f;
  if (repetition) start.prompt.assign(state.tokens.begin(), generated);
  if (repetition || sampling.frequency_penalty != 0.0f || sampling.presence_penalty != 0.0f) {
    start.generated.assign(generated, state.tokens.end());
  }
  if (state.min_tokens > 0 && !state.ignore_stop_tokens) {
    start.min_tokens = state.min_tokens;
    start.stop_tokens = state.stop_tokens;
  }
}

}  // namespace skein::scheduler
