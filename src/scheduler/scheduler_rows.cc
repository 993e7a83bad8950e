// SPDX-License-Identifier: Apache-2.0
//
// From a decision to the plan: how much of a sequence fits, and what its row says.
#include <algorithm>

#include "base/check.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"

namespace skein::scheduler {

// What the sequence can do next within what is left of the budgets. One row has one kind of output, so a chunk ends
// where the kind changes.
Scheduler::Chunk Scheduler::NextChunk(const Sequence& sequence) const {
  const std::int32_t first = sequence.taken;
  if (sequence.reports() && first >= sequence.reported) {
    SKEIN_CHECK(first == sequence.reported);
    const Output output = sequence.state.prompt_output == PromptOutput::kScores ? Output::kScore : Output::kLogits;
    return {.count = std::min({sequence.report_end() - first, tokens_left_, outputs_left_}), .output = output};
  }
  if (sequence.reports()) {  // a replay up to where reporting goes on
    return {.count = std::min(sequence.reported - first, tokens_left_)};
  }
  Chunk chunk{.count = std::min(sequence.size() - first, tokens_left_)};
  const bool pools = sequence.state.prompt_output == PromptOutput::kPooled;
  if (first + chunk.count == sequence.size() && (sequence.generates() || pools)) {
    if (outputs_left_ == 0) {
      --chunk.count;  // the last token waits for an output place
    } else {
      chunk.output = pools ? Output::kPooled : Output::kSample;
    }
  }
  return chunk;
}

// What ranks must hear of its table.
void Scheduler::AddChange(Sequence& sequence) {
  if (spare_changes_.empty()) spare_changes_.emplace_back();
  BlockTableChange& change = plan_->changes.emplace_back(std::move(spare_changes_.back()));
  spare_changes_.pop_back();
  change.sequence = sequence.state.sequence;
  change.keep = sequence.blocks_sent;
  change.append.clear();
  sequence.table.AppendRunsFrom(sequence.blocks_sent, change.append);
  sequence.blocks_sent = sequence.table.count();
}

void Scheduler::AddRow(Sequence& sequence, Chunk chunk) {
  if (!sequence.started) AddStart(sequence);
  sequence.started = true;
  sequence.planned_in = making_;
  ++sequence.rows_in_flight;
  sequence.awaits = chunk.output != Output::kNone;
  if (sequence.table.count() > sequence.blocks_sent) AddChange(sequence);
  if (spare_rows_.empty()) spare_rows_.emplace_back();
  PlanRow& row = plan_->rows.emplace_back(std::move(spare_rows_.back()));
  spare_rows_.pop_back();
  row.sequence = sequence.state.sequence;
  row.first_position = sequence.taken;
  row.output = chunk.output;
  row.top = 0;
  row.logprob = false;
  row.tokens.clear();
  row.targets.clear();
  const TokenId* tokens = sequence.state.tokens.data() + sequence.taken;
  for (std::int32_t i = 0; i < chunk.count; ++i) row.tokens.push_back({.literal = tokens[i]});
  if (chunk.output == Output::kScore) row.targets.assign(tokens + 1, tokens + 1 + chunk.count);
  if (chunk.output == Output::kScore || chunk.output == Output::kSample) row.top = sequence.state.top_logprobs;
  if (chunk.output == Output::kSample) row.logprob = sequence.state.logprobs || row.top > 0;
  sequence.taken += chunk.count;
  tokens_left_ -= chunk.count;
  if (chunk.output == Output::kSample || chunk.output == Output::kPooled) outputs_left_ -= 1;
  if (chunk.output == Output::kScore || chunk.output == Output::kLogits) outputs_left_ -= chunk.count;
}

void Scheduler::AddStart(const Sequence& sequence) {
  const SequenceState& state = sequence.state;
  const SamplingParameters& sampling = state.sampling;
  SequenceStart& start = plan_->starts.emplace_back();
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
