// SPDX-License-Identifier: Apache-2.0
//
// Mailbox carries events from the engine thread to the I/O thread: a batch of them costs one post to the I/O thread.
// ChoiceSink is one sequence's end of it: the engine pushes into it, the I/O thread reads what came for its owner. A
// sink has no room while too much of it is unread, or while its client reads too slowly; then the engine pauses that
// sequence and nobody else.
//
// Thread rule: TokenSink's functions by the engine thread; the rest, where not said otherwise, by the I/O thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/engine_client.h"
#include "engine/token_sink.h"

namespace skein::server {

// Who is told of a sequence's events.
class ChoiceOwner {
 public:
  virtual ~ChoiceOwner() = default;
  virtual void OnEvent(std::size_t choice, engine::SinkEvent event) = 0;
  // The last of a batch's events for this owner was given; it may send now.
  virtual void OnBatchEnd() = 0;
};

class ChoiceSink;

class Mailbox : public std::enable_shared_from_this<Mailbox> {
 public:
  // Runs a function on the I/O thread, later; callable by any thread.
  using Post = std::function<void(std::function<void()>)>;

  // `wake` is called by the I/O thread when sinks have room again: EngineClient::Wake is meant.
  static std::shared_ptr<Mailbox> Create(Post post, std::function<void()> wake);

  // The engine thread's side.
  void Push(std::shared_ptr<ChoiceSink> sink, engine::SinkEvent event);
  // Any thread: drops what lies here and whatever comes later. Nothing is posted afterwards.
  void Close();
  // A sink has room again. I/O thread.
  void Wake() { wake_(); }

 private:
  struct Letter {
    std::shared_ptr<ChoiceSink> sink;
    engine::SinkEvent event;
  };
  Mailbox(Post post, std::function<void()> wake) : post_(std::move(post)), wake_(std::move(wake)) {}
  void Deliver();

  const Post post_;
  const std::function<void()> wake_;
  std::vector<Letter> taken_;  // storage of Deliver

  std::mutex mutex_;
  std::vector<Letter> letters_;  // under mutex_
  bool closed_ = false;          // under mutex_
};

class ChoiceSink final : public engine::TokenSink, public std::enable_shared_from_this<ChoiceSink> {
 public:
  // Events that may lie unread before the sequence pauses.
  static constexpr int kUnreadMax = 64;

  ChoiceSink(std::shared_ptr<Mailbox> mailbox, ChoiceOwner& owner, std::size_t choice)
      : mailbox_(std::move(mailbox)), owner_(&owner), choice_(choice) {}

  bool HasRoom() const override {
    return unread_.load(std::memory_order_relaxed) < kUnreadMax && !held_.load(std::memory_order_relaxed);
  }
  void OnPrompt(engine::PromptEvent event) override { Push(std::move(event)); }
  void OnToken(engine::TokenEvent event) override { Push(std::move(event)); }
  void OnFinished(engine::FinishedEvent event) override { Push(std::move(event)); }

  // The client reads too slowly, or fast enough again.
  void Hold(bool held) { held_.store(held, std::memory_order_relaxed); }
  // What still comes is for nobody.
  void Detach() { owner_ = nullptr; }

 private:
  friend class Mailbox;
  void Push(engine::SinkEvent event) {
    unread_.fetch_add(1, std::memory_order_relaxed);
    mailbox_->Push(shared_from_this(), std::move(event));
  }

  const std::shared_ptr<Mailbox> mailbox_;
  ChoiceOwner* owner_;  // I/O thread
  const std::size_t choice_;
  std::atomic<int> unread_{0};
  std::atomic<bool> held_{false};
};

}  // namespace skein::server
