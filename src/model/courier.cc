// SPDX-License-Identifier: Apache-2.0
#include "model/courier.h"

#include "base/check.h"

namespace skein::model {

Courier::Courier(comm::Communicator& ranks) : ranks_(ranks), thread_([this] { Run(); }) {}

Courier::~Courier() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::uint64_t Courier::Post(const comm::Reduction& sum) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    SKEIN_CHECK(posted_ - done_ < kWaiting);
    number = ++posted_;
    sums_[number % kWaiting] = sum;
  }
  changed_.notify_all();
  return number;
}

Status Courier::Wait(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= number; });
  return status_;
}

void Courier::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return leaving_ || posted_ > done_; });
    if (posted_ == done_) return;
    const comm::Reduction sum = sums_[(done_ + 1) % kWaiting];
    const bool lost = !status_.ok();  // the group is of no use any more: whoever waits is not kept waiting
    lock.unlock();
    ranks_.transport().set_beside(true);
    Status status = lost ? OkStatus() : ranks_.AllReduce(sum);
    ranks_.transport().set_beside(false);
    lock.lock();
    if (status_.ok()) status_ = std::move(status);
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace skein::model
