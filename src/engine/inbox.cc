// SPDX-License-Identifier: Apache-2.0
//
// Two lists under one lock, swapped out whole by the engine thread.
#include "engine/inbox.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace skein::engine {

Inbox::Inbox(std::size_t capacity, std::size_t live_max) : capacity_(capacity), live_max_(live_max) {
  arrivals_.reserve(capacity);
}

Status Inbox::Submit(Arrival arrival) {
  {
    const std::lock_guard lock(mutex_);
    const RequestId request = arrival.request;
    if (closed_) return Status(Code::kUnavailable, "the engine is shutting down");
    if (live_.contains(request)) {
      return InvalidArgument(fmt::format("request {} is running already", request.value), "request");
    }
    if (arrivals_.size() >= capacity_ || live_.size() >= live_max_) {
      return Status(Code::kUnavailable,
                    fmt::format("the engine's queue is full ({} requests); try again later", live_.size()));
    }
    live_.emplace(request, false);
    arrivals_.push_back(std::move(arrival));
  }
  work_.notify_one();
  return OkStatus();
}

void Inbox::Cancel(RequestId request) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(request);
    if (found == live_.end() || found->second) return;
    found->second = true;
    cancels_.push_back(request);
  }
  work_.notify_one();
}

void Inbox::Wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  work_.notify_one();
}

void Inbox::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  work_.notify_one();
}

bool Inbox::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void Inbox::TakeAll(std::vector<Arrival>& arrivals, std::vector<RequestId>& cancels) {
  arrivals.clear();
  cancels.clear();
  const std::lock_guard lock(mutex_);
  woken_ = false;
  arrivals.swap(arrivals_);
  cancels.swap(cancels_);
}

void Inbox::WaitForWork(std::optional<std::int64_t> timeout_ns) {
  std::unique_lock lock(mutex_);
  const auto has_work = [this] { return woken_ || closed_ || !arrivals_.empty() || !cancels_.empty(); };
  if (timeout_ns) {
    work_.wait_for(lock, std::chrono::nanoseconds(*timeout_ns), has_work);
  } else {
    work_.wait(lock, has_work);
  }
}

void Inbox::Forget(RequestId request) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(request);
  if (found == live_.end()) return;
  if (found->second) std::erase(cancels_, request);  // came too late; it must not hit the next use of the id
  live_.erase(found);
}

std::size_t Inbox::waiting_count() const {
  const std::lock_guard lock(mutex_);
  return arrivals_.size();
}

}  // namespace skein::engine
