// SPDX-License-Identifier: Apache-2.0
//
// RemoteRequest is one live request of a RemoteEngine: its description with the tokens delivered so far, and what has come from
// the engine that serves it now and was not taken by its sink yet. It decides what a replay asks for and which of a replay's
// events are new.
//
// Events are delivered once and in order whatever engine they come from: a token is known by its index, what is computed of a
// prompt by its position. Tokens are the same again, since they depend on the sequence alone.
//
// Owned by RemoteEngine's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <variant>

#include "base/status.h"
#include "engine/engine_client.h"
#include "engine/executor.h"
#include "engine/token_sink.h"

namespace skein::engine {

class RemoteRequest {
 public:
  RemoteRequest(RequestSpec spec, std::shared_ptr<TokenSink> sink, std::int64_t submitted_ns);

  const RequestSpec& spec() const { return spec_; }
  TokenSink& sink() const { return *sink_; }

  // What to send to an engine that begins with the request: the next epoch, only what was not delivered. Events that were held
  // are dropped; the engine makes them again.
  RequestSpec Replay(std::int64_t now_ns);
  // Whether all was delivered but the end, so that there is nothing to send. `capacity`: the longest sequence, 0: not known.
  FinishReason EndWithout(std::int32_t capacity) const;
  bool begun() const { return delivered_ > 0; }

  // Takes an event in. False: of an older epoch, to be ignored. Errors: kInvalidFile for one that cannot come from an engine.
  Result<bool> Take(PromptEvent event, const ExecutorLimits& limits);
  Result<bool> Take(TokenEvent event, const ExecutorLimits& limits);
  Result<bool> Take(FinishedEvent event, std::int64_t now_ns);

  // The next event for the sink, which then counts as delivered. Requires: holds().
  SinkEvent TakeHeld(std::int64_t now_ns);
  bool holds() const { return !held_.empty(); }
  bool holds_end() const { return holds() && std::holds_alternative<FinishedEvent>(held_.front().event); }
  // Credit to give back, or 0 while it is little.
  std::uint32_t TakeCredit();
  // The last event when no engine tells it.
  FinishedEvent End(FinishReason reason, std::int64_t now_ns) const;

  bool cancelled = false;  // the engine was told

 private:
  struct Held {
    SinkEvent event;
    std::int32_t prompt_end = 0;  // with a PromptEvent: behind its last position
  };

  std::int32_t report_end() const;
  Status CheckRoom() const;
  std::int32_t generated() const { return static_cast<std::int32_t>(spec_.tokens.size()) - spec_.prompt_tokens; }

  RequestSpec spec_;  // tokens: those delivered, too; epoch: that of the engine of now
  const std::uint32_t own_epoch_;  // what the sink's owner calls it
  const std::shared_ptr<TokenSink> sink_;
  const std::int64_t submitted_ns_;
  const std::uint32_t window_;
  std::int64_t sent_ns_ = 0;         // to the engine of now
  std::int64_t first_token_ns_ = 0;  // delivered
  std::uint64_t delivered_ = 0;      // events
  bool begun_before_ = false;        // the engine of now did not begin it
  // Prompt positions, [0, report_end()):
  std::int32_t reported_ = 0;        // delivered
  std::int32_t position_ = 0;        // next one of this epoch
  bool pooled_ = false;              // the vector was delivered
  std::int32_t next_index_ = 0;      // of the next token of this epoch
  std::deque<Held> held_;
  std::uint32_t taken_ = 0;          // events whose credit was not given back
};

}  // namespace skein::engine
