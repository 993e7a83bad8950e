// SPDX-License-Identifier: Apache-2.0
//
// The field lists (base/wire.h) of the scheduler's values, for step_wire and for messages that contain them. The order
// of fields is the wire form: a change of any list raises the version in step_wire.cc and engine_wire.cc.
#pragma once

#include "base/wire.h"
#include "scheduler/sampling.h"
#include "scheduler/sequence_state.h"
#include "scheduler/step_plan.h"

namespace skein::scheduler {

using wire::Same;

template <class Wire, Same<SamplingParameters> T>
void Fields(Wire& wire, T& value) {
  wire(value.temperature, value.top_k, value.top_p, value.min_p, value.repetition_penalty, value.frequency_penalty,
       value.presence_penalty, value.seed, value.bias);
}

template <class Wire, Same<SequenceState> T>
void Fields(Wire& wire, T& value) {
  wire(value.sequence, value.tokens, value.prompt_tokens, value.max_tokens, value.min_tokens, value.choice,
       value.sampling, value.stop_tokens, value.ignore_stop_tokens, value.logprobs, value.top_logprobs);
  wire.Enum(value.prompt_output, PromptOutput::kPooled);
  wire(value.priority, value.deadline_ns, value.tenant, value.cache_salt);
}

template <class Wire, Same<PlannedToken> T>
void Fields(Wire& wire, T& value) {
  wire(value.literal, value.row, value.step);
}

template <class Wire, Same<PlanRow> T>
void Fields(Wire& wire, T& value) {
  wire(value.sequence, value.first_position, value.tokens, value.adapter);
  wire.Enum(value.output, Output::kPooled);
  wire(value.top, value.logprob, value.targets, value.draft);
}

template <class Wire, Same<BlockRun> T>
void Fields(Wire& wire, T& value) {
  wire(value.first, value.count);
}

template <class Wire, Same<BlockTableChange> T>
void Fields(Wire& wire, T& value) {
  wire(value.sequence, value.keep, value.append);
}

template <class Wire, Same<BlockCopy> T>
void Fields(Wire& wire, T& value) {
  wire(value.from, value.to);
}

template <class Wire, Same<SequenceStart> T>
void Fields(Wire& wire, T& value) {
  wire(value.sequence, value.sampling, value.choice, value.prompt, value.generated, value.prompt_tokens,
       value.min_tokens, value.stop_tokens);
}

template <class Wire, Same<GrammarMask> T>
void Fields(Wire& wire, T& value) {
  wire(value.row, value.allowed);
}

template <class Wire, Same<StepPlan> T>
void Fields(Wire& wire, T& value) {
  wire(value.step, value.starts, value.releases, value.changes, value.copies, value.rows, value.masks);
}

template <class Wire, Same<TokenLogprob> T>
void Fields(Wire& wire, T& value) {
  wire(value.token, value.logprob);
}

template <class Wire, Same<ScoredToken> T>
void Fields(Wire& wire, T& value) {
  wire(value.token, value.logprob, value.top);
}

template <class Wire, Same<RowResult> T>
void Fields(Wire& wire, T& value) {
  wire(value.row, value.scored, value.logits, value.hidden);
}

template <class Wire, Same<StepResult> T>
void Fields(Wire& wire, T& value) {
  wire(value.step, value.rows, value.compute_ns, value.communication_ns, value.error);
}

}  // namespace skein::scheduler
