// SPDX-License-Identifier: Apache-2.0
//
// StepPlan is the one value that goes down from the scheduler to the ranks, StepResult the one that comes up. A plan
// says who computes how many tokens of which sequence, what is wanted of them, and how block tables change. Both are
// plain data with a wire form (step_wire.h), versioned and checksummed, so that a rank may be another process.
//
// Sampling happens on the ranks; what it needs of a sequence (parameters, counts of tokens for penalties) is sent once, with
// the first row of the sequence, and kept there until the sequence is released.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "scheduler/sampling.h"

namespace skein::scheduler {

// A token of a row: known, or the one sampled for row `row` of step `step`, which may not have ended yet.
struct PlannedToken {
  static constexpr std::int32_t kLiteral = -1;
  TokenId literal = 0;
  std::int32_t row = kLiteral;
  StepId step = {};
  friend bool operator==(const PlannedToken&, const PlannedToken&) = default;
};

// What is wanted of a row's positions.
enum class Output : std::uint8_t {
  kNone,     // only the KV cache is filled
  kSample,   // the next token after the row's last position, with its log-probability
  kScore,    // for every position of the row: the log-probability of `targets[i]` (prompt log-probabilities, perplexity)
  kLogits,   // for every position of the row: all logits
  kHidden,   // for every position of the row: the hidden state before the head (room; not computed yet)
  kPooled,   // one vector for the sequence: the hidden state before the head at the row's last position
};

struct PlanRow {
  SequenceId sequence = {};
  std::int32_t first_position = 0;
  std::vector<PlannedToken> tokens = {};  // consecutive positions from first_position
  std::int32_t adapter = 0;          // 0: none
  Output output = Output::kNone;
  std::int32_t top = 0;                  // with kSample and kScore: that many likeliest tokens with log-probabilities
  bool logprob = false;                  // with kSample: the token's log-probability is wanted (implied by top > 0)
  std::vector<TokenId> targets = {};          // with kScore: one for each token
  std::int32_t draft = 0;                // of tokens, how many at the end are drafts to be verified (room)
  friend bool operator==(const PlanRow&, const PlanRow&) = default;
};

// A sequence's block table grows by runs of consecutive places; a table is never sent whole.
struct BlockRun {
  BlockId first = {};
  std::uint32_t count = 0;
  friend bool operator==(const BlockRun&, const BlockRun&) = default;
};
struct BlockTableChange {
  SequenceId sequence = {};
  std::uint32_t keep = 0;         // blocks of the table that stay; what is behind them goes
  std::vector<BlockRun> append = {};   // then these are appended
  friend bool operator==(const BlockTableChange&, const BlockTableChange&) = default;
};
struct BlockCopy {
  BlockId from = {}, to = {};
  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

// What a rank must know of a sequence before its first row.
struct SequenceStart {
  SequenceId sequence = {};
  SamplingParameters sampling = {};
  std::int32_t choice = 0;             // index of the choice, in the key of its random numbers
  std::vector<TokenId> prompt = {};         // for repetition penalties; empty when no penalty is set
  std::vector<TokenId> generated = {};      // tokens already generated (after preemption): penalties count them
  std::int32_t prompt_tokens = 0;      // length of the prompt: positions from here on are generated
  std::int32_t min_tokens = 0;         // until that many are generated …
  std::vector<TokenId> stop_tokens = {};    // … these are not sampled; empty when min_tokens is 0
  friend bool operator==(const SequenceStart&, const SequenceStart&) = default;
};

// A grammar mask of one row (room for constrained decoding): bit i set: token i is allowed.
struct GrammarMask {
  std::int32_t row = 0;
  std::vector<std::uint64_t> allowed = {};
  friend bool operator==(const GrammarMask&, const GrammarMask&) = default;
};

// The scheduler puts at most one row of a sequence in a plan. Releases of sequences that a rank does not know are no
// error (they are sent again after a step that failed).
struct StepPlan {
  StepId step = {};
  std::vector<SequenceStart> starts = {};
  std::vector<SequenceId> releases = {};       // sequences that ranks may forget; applied before anything else
  std::vector<BlockTableChange> changes = {};  // applied after releases
  std::vector<BlockCopy> copies = {};          // then these
  std::vector<PlanRow> rows = {};
  std::vector<GrammarMask> masks = {};

  std::int64_t TokenCount() const;
  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

struct ScoredToken {
  TokenId token = 0;
  float logprob = 0;               // of the raw distribution; 0 when it was not wanted
  std::vector<TokenLogprob> top = {};   // likeliest first
  friend bool operator==(const ScoredToken&, const ScoredToken&) = default;
};

struct RowResult {
  std::int32_t row = 0;
  std::vector<ScoredToken> scored = {};  // kSample: one; kScore: one per position
  std::vector<float> logits = {};        // kLogits: [positions, vocabulary]
  std::vector<float> hidden = {};        // kPooled: [hidden size]
  friend bool operator==(const RowResult&, const RowResult&) = default;
};

struct StepResult {
  StepId step = {};
  std::vector<RowResult> rows = {};      // of rows whose output is not kNone, in order of rows
  std::uint64_t compute_ns = 0;     // measured by the executor (the simulated one: predicted)
  std::uint64_t communication_ns = 0;  // of these: in which the rank talked to others, or waited for them
  std::string error = {};                // not empty: the step failed, nothing of it counts
  friend bool operator==(const StepResult&, const StepResult&) = default;
};

}  // namespace skein::scheduler
