// SPDX-License-Identifier: Apache-2.0
//
// What the scheduler knows of a sequence besides its state: all of it can be made again from the state. Used by the
// scheduler's own files only.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/scheduler.h"

namespace skein::scheduler {

struct Scheduler::Sequence {
  Sequence(SequenceState s, BlockPool& pool) : state(std::move(s)), table(pool) {}

  SequenceState state;
  Candidate candidate;           // what policies see
  BlockTable table;
  Tenant* tenant = nullptr;
  std::uint32_t blocks_sent = 0;  // of the table, how many ranks know
  std::int32_t computed = 0;     // positions whose KV is there
  std::int32_t taken = 0;        // those, and what plans in flight add: the next row begins here
  std::int32_t rows_in_flight = 0;  // of plans that are not committed, the one in the making among them
  std::int32_t reported = 0;     // prompt positions whose scores or logits have gone out
  std::int32_t charged = 0;      // tokens that the tenant has paid for
  bool running = false;
  bool started = false;          // ranks know it
  bool paused = false;
  bool awaits = false;           // a row in flight whose result says what comes next: no other row until then
  bool held_back = false;        // gives way once its rows in flight are back; decided anew for every plan
  StepId planned_in = {};        // the last plan with a row of it
  FinishReason ends = FinishReason::kNone;  // with this once its rows in flight are back; kNone: goes on
  std::string end_error;

  // For the prefix index.
  PrefixRoot root;
  std::vector<std::uint64_t> hashes;  // chained, of the full blocks of tokens
  std::uint32_t indexed = 0;          // blocks of the table, from its first one, that are the index's
  std::int32_t prefix_waits = 0;      // steps it has waited for another one to compute their common prefix
  std::int32_t cached_tokens = -1;    // found at its first admission; -1: not admitted yet

  std::int32_t size() const { return static_cast<std::int32_t>(state.tokens.size()); }
  // Prompt positions [0, report_end) are to be reported.
  std::int32_t report_end() const {
    switch (state.prompt_output) {
      case PromptOutput::kScores: return state.prompt_tokens - 1;
      case PromptOutput::kLogits: return state.prompt_tokens;
      case PromptOutput::kPooled:
      case PromptOutput::kNone: break;
    }
    return 0;
  }
  bool reports() const { return reported < report_end(); }
  bool generates() const { return state.generated() < state.max_tokens; }
  // From `position` on only the last token is missing: it is an answer that goes on.
  bool answers_at(std::int32_t position) const { return size() - position == 1 && !reports(); }
  // Whoever wants something of every position of the prompt computes them afresh.
  bool reads_prefixes() const {
    return state.prompt_output == PromptOutput::kNone || state.prompt_output == PromptOutput::kPooled;
  }
};

}  // namespace skein::scheduler
