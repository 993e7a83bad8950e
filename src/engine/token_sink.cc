// SPDX-License-Identifier: Apache-2.0
//
// Queues under a lock that is held for a move.
#include "engine/token_sink.h"

#include <utility>

namespace skein::engine {

bool BoundedSink::HasRoom() const {
  const std::lock_guard lock(mutex_);
  return events_.size() < capacity_;
}

void BoundedSink::Push(SinkEvent event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  arrived_.notify_one();
}

SinkEvent BoundedSink::TakeFront(std::unique_lock<std::mutex>& lock) {
  const bool was_full = events_.size() >= capacity_;
  SinkEvent event = std::move(events_.front());
  events_.pop_front();
  lock.unlock();
  if (was_full && on_room_) on_room_();
  return event;
}

SinkEvent BoundedSink::WaitForEvent() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return !events_.empty(); });
  return TakeFront(lock);
}

std::optional<SinkEvent> BoundedSink::WaitForEvent(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  if (!arrived_.wait_for(lock, timeout, [this] { return !events_.empty(); })) return std::nullopt;
  return TakeFront(lock);
}

std::optional<SinkEvent> BoundedSink::TryTake() {
  std::unique_lock lock(mutex_);
  if (events_.empty()) return std::nullopt;
  return TakeFront(lock);
}

void CollectingSink::OnPrompt(PromptEvent event) {
  const std::lock_guard lock(mutex_);
  prompt_.push_back(std::move(event));
}

void CollectingSink::OnToken(TokenEvent event) {
  const std::lock_guard lock(mutex_);
  tokens_.push_back(std::move(event));
}

void CollectingSink::OnFinished(FinishedEvent event) {
  const std::lock_guard lock(mutex_);
  finished_ = std::move(event);
  ended_.notify_all();  // under the lock: the waiter may destroy this right after
}

const FinishedEvent& CollectingSink::WaitForEnd() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return finished_.has_value(); });
  return *finished_;
}

bool CollectingSink::finished() const {
  const std::lock_guard lock(mutex_);
  return finished_.has_value();
}

std::vector<TokenId> CollectingSink::TokenIds() const {
  std::vector<TokenId> ids;
  for (const TokenEvent& event : tokens_) ids.push_back(event.token.token);
  return ids;
}

}  // namespace skein::engine
