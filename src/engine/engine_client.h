// SPDX-License-Identifier: Apache-2.0
//
// EngineClient is how requests reach an engine and tokens come back, shaped like a wire so that the engine may be in
// another process: Submit, Cancel and Stats go in; Token and Finished events come out through the request's sink. Its
// messages have a wire form (engine_wire.h).
//
// Thread rule: Submit, Cancel, Stats and Health may be called by any thread. A TokenSink is called by the engine thread only;
// it must not block.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "engine/rank_load.h"
#include "scheduler/sampling.h"
#include "scheduler/sequence_state.h"
#include "scheduler/step_plan.h"

namespace skein::engine {

using scheduler::FinishReason;
using scheduler::PromptOutput;

// Submit{request, epoch, tokens so far, sampler counters}: a request is wholly described by this, also in the middle of
// an answer (tokens already generated are at the end of `tokens`, prompt_tokens says where they begin).
struct RequestSpec {
  RequestId request = {};
  std::uint32_t epoch = 0;  // counts submissions of this request; events of an older one are ignored
  std::vector<TokenId> tokens = {};
  std::int32_t prompt_tokens = 0;
  std::int32_t max_tokens = 0;  // to generate, those already in `tokens` included; 0: only the prompt is computed
  std::int32_t min_tokens = 0;  // stop tokens are not sampled before
  std::int32_t choice = 0;
  scheduler::SamplingParameters sampling = {};
  std::vector<TokenId> stop_tokens = {};  // end-of-answer tokens; the one sampled is reported, and it is not part of the text
  bool ignore_stop_tokens = false;
  std::int32_t top_logprobs = 0;
  bool logprobs = false;  // tokens come with their log-probability (implied by top_logprobs > 0); else it is 0
  PromptOutput prompt_output = PromptOutput::kNone;
  std::int32_t priority = 0;           // higher first
  std::int64_t deadline_ns = 0;        // on the engine's clock; 0: none
  std::string tenant = {};             // fair shares; prefixes are shared among requests of one tenant …
  std::string cache_salt = {};         // … and one salt only
  friend bool operator==(const RequestSpec&, const RequestSpec&) = default;
};

// One event of a request, in order of `index`.
struct TokenEvent {
  RequestId request = {};
  std::uint32_t epoch = 0;
  std::int32_t index = 0;                        // of the generated token
  scheduler::ScoredToken token = {};
  std::int64_t steps_ns = 0;                     // that steps took to compute since the request's last token, or since it came …
  std::int64_t communication_ns = 0;             // … of these, in which ranks talked or waited for each other
  friend bool operator==(const TokenEvent&, const TokenEvent&) = default;
};
// What was computed at consecutive prompt positions from `first_position`: the score at position p is that of the
// prompt's token at p + 1 given those up to p (the last position has none); logits are fp32 [positions, vocabulary].
struct PromptEvent {
  RequestId request = {};
  std::uint32_t epoch = 0;
  std::int32_t first_position = 0;
  std::vector<scheduler::ScoredToken> scores = {};
  std::vector<float> logits = {};
  std::vector<float> hidden = {};  // pooled: the final hidden state at first_position, the prompt's last
  friend bool operator==(const PromptEvent&, const PromptEvent&) = default;
};
struct FinishedEvent {
  RequestId request = {};
  std::uint32_t epoch = 0;
  FinishReason reason = FinishReason::kNone;
  std::string error = {};                    // with kError
  bool refused = false;                      // with kError: nothing was computed, since it could not make its deadline
  std::int32_t prompt_tokens = 0;
  std::int32_t cached_tokens = 0;       // of the prompt, found computed already
  std::int32_t generated_tokens = 0;
  std::int64_t queued_ns = 0;           // from Submit to the first step
  std::int64_t first_token_ns = 0;      // from Submit; 0: none
  std::int64_t total_ns = 0;            // from Submit
  friend bool operator==(const FinishedEvent&, const FinishedEvent&) = default;
};

class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // Whether another event is welcome; while not, the sequence pauses and nobody else does.
  virtual bool HasRoom() const = 0;
  virtual void OnPrompt(PromptEvent event) = 0;
  virtual void OnToken(TokenEvent event) = 0;
  virtual void OnFinished(FinishedEvent event) = 0;  // the last call
};

// Upper ends of EngineStats::step_tokens, as vLLM has them for vllm:iteration_tokens_total.
inline constexpr std::array<double, 13> kStepTokenBounds = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

struct EngineStats {
  std::uint64_t steps = 0;
  std::uint64_t step_ns = 0;             // time that they took to compute
  std::uint64_t communication_ns = 0;    // of that: ranks talked, or waited for each other
  std::uint64_t prompt_tokens = 0;
  std::uint64_t generated_tokens = 0;
  // Steps by how many tokens they had, of prompts and generated together: above the bound before and at most each of
  // kStepTokenBounds; the last ones: above all.
  std::array<std::uint64_t, kStepTokenBounds.size() + 1> step_tokens = {};
  std::uint64_t preemptions = 0;
  std::uint64_t refusals = 0;            // for a deadline that could not be made
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  std::uint32_t paused = 0;              // of running and waiting: their sinks have no room
  std::uint32_t blocks_total = 0;
  std::uint32_t blocks_held = 0;         // by running sequences; held / total is how full the KV memory is
  std::uint32_t blocks_cached = 0;       // kept for the prefix index only, free for whoever needs them
  std::uint32_t block_tokens = 0;        // places of a block
  std::uint64_t places_unused = 0;       // in held blocks, for no token yet: internal fragmentation
  std::uint64_t prefix_queries = 0;      // tokens looked up in the prefix index
  std::uint64_t prefix_hits = 0;         // and found
  // Of an engine in other processes (RemoteEngine); 0 here.
  std::uint64_t restarts = 0;            // times that it was lost and came back
  std::uint64_t replays = 0;             // requests that went on after it had
  friend bool operator==(const EngineStats&, const EngineStats&) = default;
};

class EngineClient {
 public:
  virtual ~EngineClient() = default;
  // Errors: kInvalidArgument, kLimit (a prompt longer than the context, an id outside the vocabulary: names both
  // numbers), kUnavailable (queue full, shutting down). On an error the sink is not called.
  virtual Status Submit(RequestSpec request, std::shared_ptr<TokenSink> sink) = 0;
  // The request ends with kCancelled, unless it has ended already.
  virtual void Cancel(RequestId request) = 0;
  // A sink has room again. A hint: without it the engine looks by itself, every few milliseconds.
  virtual void Wake() = 0;
  virtual EngineStats Stats() const = 0;
  // What the ranks behind the engine are and have done, by rank; empty where that is not known. Of ranks in other processes: as they said
  // last, a beat ago.
  virtual std::vector<RankStats> Ranks() const { return {}; }
  // kUnavailable while requests that are submitted only wait: the engine's processes are being started anew.
  virtual Status Health() const { return OkStatus(); }
};

}  // namespace skein::engine
