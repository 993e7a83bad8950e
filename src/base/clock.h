// SPDX-License-Identifier: Apache-2.0
//
// Clock is where time comes from, passed in so that a simulation can have its own. SteadyClock is the machine's
// monotonic one; ManualClock stands still until told otherwise.
//
// Thread rule: all may be read by any thread; a ManualClock is moved by one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace skein {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since some fixed moment; never goes back.
  virtual std::int64_t NowNs() const = 0;
};

class SteadyClock final : public Clock {
 public:
  std::int64_t NowNs() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

class ManualClock final : public Clock {
 public:
  explicit ManualClock(std::int64_t now_ns = 0) : now_ns_(now_ns) {}
  std::int64_t NowNs() const override { return now_ns_.load(std::memory_order_relaxed); }
  void Advance(std::int64_t by_ns) { now_ns_.fetch_add(by_ns, std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> now_ns_;
};

}  // namespace skein
