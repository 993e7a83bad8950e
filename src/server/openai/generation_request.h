// SPDX-License-Identifier: Apache-2.0
//
// GenerationRequest is a checked request for text, whatever endpoint it came by: every number is in its range, every
// list within its cap, every prompt tokenised and short enough. What answers it looks nothing up again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "scheduler/sampling.h"

namespace skein::server {

struct PromptTokens {
  std::vector<TokenId> tokens;  // never empty
  std::string text;             // the exact text, for echo; decoded when ids were given
  // How many tokens this prompt may get: what was asked for, cut to what the context leaves. Prompts of one request
  // differ in length, so each has its own.
  std::int32_t max_tokens = 0;
};

struct GenerationRequest {
  enum class Kind : std::uint8_t { kChat, kCompletion };
  Kind kind = Kind::kChat;
  std::string model;                  // as the client wrote it; it is one of the served names
  std::vector<PromptTokens> prompts;  // chat: exactly one

  std::int32_t n = 1;        // choices of each prompt; prompts × n is at most 256
  std::int32_t best_of = 1;  // equal to n; other values are refused
  bool max_tokens_given = false;
  std::int32_t min_tokens = 0;
  scheduler::SamplingParameters sampling;  // the seed is always set, a random one when the client gave none

  std::vector<std::string> stop;       // none is empty
  bool include_stop_in_output = false;
  std::vector<TokenId> stop_token_ids;  // beside the model's own
  bool ignore_eos = false;              // the model's own stop tokens do not end the answer

  bool logprobs = false;
  std::int32_t top_logprobs = 0;              // alternatives beside each token
  bool echo = false;                          // completions: the answer begins with the prompt
  std::optional<std::int32_t> prompt_logprobs;  // alternatives beside each token of the prompt

  bool stream = false;
  bool include_usage = false;           // stream_options.include_usage: one more chunk at the end
  bool continuous_usage = false;        // stream_options.continuous_usage_stats: usage in every chunk
  bool return_token_ids = false;
  bool skip_special_tokens = true;

  std::string cache_salt;
  std::int32_t priority = 0;  // higher first
  std::string user;
  std::int64_t deadline_ms = 0;  // from the request's arrival; 0: none

  // Chat: the prompt ended inside <think>, so the answer begins with reasoning.
  bool generation_prompt_opens_reasoning = false;};

}  // namespace skein::server
