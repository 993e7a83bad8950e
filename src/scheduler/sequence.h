// SPDX-License-Identifier: Apache-2.0
//
// What the scheduler knows of a sequence besides its state: all of it can be made again from the state. Used by the
// scheduler's own files only.
#pragma once

#include <cstdint>
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
  std::int32_t reported = 0;     // prompt positions whose scores or logits have gone out
  std::int32_t charged = 0;      // tokens that the tenant has paid for
  bool running = false;
  bool started = false;          // ranks know it
  bool paused = false;
  bool planned = false;          // has a row in the plan
  bool cancelled = false;        // while a plan was in flight

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
  // Only the last token is missing: it is an answer that goes on.
  bool answers() const { return size() - computed == 1 && !reports(); }
  // Whoever wants something of every position of the prompt computes them afresh.
  bool reads_prefixes() const {
    return state.prompt_output == PromptOutput::kNone || state.prompt_output == PromptOutput::kPooled;
  }
};

}  // namespace skein::scheduler
