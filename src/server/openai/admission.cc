// SPDX-License-Identifier: Apache-2.0
#include "server/openai/admission.h"

#include <utility>

#include "base/check.h"

namespace skein::server {

Admission::Place& Admission::Place::operator=(Place&& other) noexcept {
  if (this != &other) {
    Release();
    admission_ = other.admission_;
    entry_ = other.entry_;
    other.admission_ = nullptr;
  }
  return *this;
}

void Admission::Place::Release() {
  if (admission_ == nullptr) return;
  Admission& admission = *std::exchange(admission_, nullptr);
  if (entry_->state == Entry::State::kRunning) --admission.running_;
  if (entry_->state == Entry::State::kWaiting) admission.ready_.remove(entry_);
  admission.entries_.erase(entry_);
  admission.Grant();
}

std::optional<Admission::Place> Admission::TryEnter() {
  if (entries_.size() >= running_max_ + waiting_max_) return std::nullopt;
  return Place(*this, entries_.emplace(entries_.end()));
}

void Admission::Await(Place& place, std::function<void()> granted) {
  SKEIN_CHECK(place.admission_ == this);
  SKEIN_CHECK(place.entry_->state == Entry::State::kReading);
  place.entry_->state = Entry::State::kWaiting;
  place.entry_->granted = std::move(granted);
  ready_.push_back(place.entry_);
  Grant();
}

// A loop and no recursion: a request that fails as soon as it may run gives its place back in here.
void Admission::Grant() {
  if (granting_) return;
  granting_ = true;
  while (!closed_ && running_ < running_max_ && !ready_.empty()) {
    Entry& entry = *ready_.front();
    ready_.pop_front();
    entry.state = Entry::State::kRunning;
    ++running_;
    const std::function<void()> granted = std::move(entry.granted);
    granted();
  }
  granting_ = false;
}

}  // namespace skein::server
