// SPDX-License-Identifier: Apache-2.0
//
// SequenceState: everything that the future of a sequence depends on. Since random numbers are keyed by position, the
// tokens are the sampler's whole state, so a sequence can be preempted, replayed, resubmitted or moved to another
// engine with this value alone, and its answer stays the same. It has a wire form (step_wire.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "scheduler/sampling.h"

namespace skein::scheduler {

// What is wanted of the prompt, besides filling the KV cache.
enum class PromptOutput : std::uint8_t {
  kNone,
  kScores,
  kLogits,
  kPooled,  // one vector for the prompt: an embedding
};

enum class FinishReason : std::uint8_t { kNone, kStop, kLength, kCancelled, kError };

struct SequenceState {
  SequenceId sequence = {};
  std::vector<TokenId> tokens = {};      // the prompt, then what has been generated
  std::int32_t prompt_tokens = 0;
  std::int32_t max_tokens = 0;      // to generate in all; 0: only the prompt is computed
  std::int32_t min_tokens = 0;      // stop tokens do not count before
  std::int32_t choice = 0;
  SamplingParameters sampling = {};
  std::vector<TokenId> stop_tokens = {};
  bool ignore_stop_tokens = false;
  bool logprobs = false;
  std::int32_t top_logprobs = 0;
  PromptOutput prompt_output = PromptOutput::kNone;
  std::int32_t priority = 0;
  std::int64_t deadline_ns = 0;     // on the caller's clock; 0: none
  std::string tenant = {};          // whose it is: fair shares, and whom the prefix index keeps apart …
  std::string cache_salt = {};      // … together with this

  std::int32_t generated() const { return static_cast<std::int32_t>(tokens.size()) - prompt_tokens; }
  friend bool operator==(const SequenceState&, const SequenceState&) = default;
};

}  // namespace skein::scheduler
