// SPDX-License-Identifier: Apache-2.0
#include "server/openai/mailbox.h"

#include <algorithm>
#include <utility>

namespace skein::server {

std::shared_ptr<Mailbox> Mailbox::Create(Post post, std::function<void()> wake) {
  return std::shared_ptr<Mailbox>(new Mailbox(std::move(post), std::move(wake)));
}

void Mailbox::Push(std::shared_ptr<ChoiceSink> sink, engine::SinkEvent event) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  letters_.push_back({std::move(sink), std::move(event)});
  // Whoever delivers takes everything that lies here, so that a step of many sequences is one post. Under the lock, so
  // that nothing is posted any more once Close has returned.
  if (letters_.size() == 1) post_([self = shared_from_this()] { self->Deliver(); });
}

void Mailbox::Deliver() {
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(letters_);
  }
  bool was_full = false;
  for (Letter& letter : taken_) {
    was_full = letter.sink->unread_.fetch_sub(1, std::memory_order_relaxed) >= ChoiceSink::kUnreadMax || was_full;
    if (letter.sink->owner_ != nullptr) letter.sink->owner_->OnEvent(letter.sink->choice_, std::move(letter.event));
  }
  // An owner may end in OnBatchEnd, and then is not there for its next letter: its sinks know.
  for (Letter& letter : taken_) {
    if (letter.sink->owner_ != nullptr) letter.sink->owner_->OnBatchEnd();
  }
  taken_.clear();
  if (was_full) wake_();
}

void Mailbox::Close() {
  std::vector<Letter> dropped;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(letters_);
}

}  // namespace skein::server
