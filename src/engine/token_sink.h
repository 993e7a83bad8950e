// SPDX-License-Identifier: Apache-2.0
//
// Sinks for the usual cases. BoundedSink is a queue between the engine thread and one reader: when the reader is slow it
// fills, and the engine pauses that sequence and nobody else. CollectingSink keeps everything, for whoever only wants
// the whole answer, and for tests.
//
// Thread rule: the On… functions and HasRoom are called by the engine thread, the rest by one reader.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "engine/engine_client.h"

namespace skein::engine {

using SinkEvent = std::variant<PromptEvent, TokenEvent, FinishedEvent>;

class BoundedSink final : public TokenSink {
 public:
  // Room for `capacity` events besides the last one, which always finds a place.
  explicit BoundedSink(std::size_t capacity) : capacity_(capacity) {}
  // Called by the reader, without a lock, when it has taken from a full queue; EngineClient::Wake is meant.
  void SetOnRoom(std::function<void()> on_room) { on_room_ = std::move(on_room); }

  bool HasRoom() const override;
  void OnPrompt(PromptEvent event) override { Push(std::move(event)); }
  void OnToken(TokenEvent event) override { Push(std::move(event)); }
  void OnFinished(FinishedEvent event) override { Push(std::move(event)); }

  // The next event; waits for it. After FinishedEvent nothing comes.
  SinkEvent WaitForEvent();
  std::optional<SinkEvent> TryTake();
  // The next event, or nothing when none comes in that time.
  std::optional<SinkEvent> WaitForEvent(std::chrono::nanoseconds timeout);

 private:
  void Push(SinkEvent event);
  SinkEvent TakeFront(std::unique_lock<std::mutex>& lock);

  const std::size_t capacity_;
  std::function<void()> on_room_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<SinkEvent> events_;  // under mutex_
};

class CollectingSink final : public TokenSink {
 public:
  bool HasRoom() const override { return true; }
  void OnPrompt(PromptEvent event) override;
  void OnToken(TokenEvent event) override;
  void OnFinished(FinishedEvent event) override;

  // Waits for the end. What was collected may be read afterwards without a lock.
  const FinishedEvent& WaitForEnd();
  bool finished() const;
  const std::vector<PromptEvent>& prompt() const { return prompt_; }
  const std::vector<TokenEvent>& tokens() const { return tokens_; }
  std::vector<TokenId> TokenIds() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<PromptEvent> prompt_;
  std::vector<TokenEvent> tokens_;
  std::optional<FinishedEvent> finished_;
};

}  // namespace skein::engine
