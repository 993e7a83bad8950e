// SPDX-License-Identifier: Apache-2.0
//
// RankLoad is what one rank has done since it began, in sums: people see it as metrics, in `skein mesh top` and in `skein bench ranks`. A rank's
// time within its steps is busy, communicating or waiting; what is missing to the time that went by it had nothing to do.
//
// Thread rule: RankCounters is added to by the rank's own thread and read by any.
#pragma once

#include <atomic>
#include <cstdint>

namespace skein::engine {

struct RankLoad {
  std::uint64_t steps = 0;
  std::uint64_t busy_ns = 0;           // computed
  std::uint64_t communication_ns = 0;  // talked to ranks that were there
  std::uint64_t waiting_ns = 0;        // waited for ranks that were not, in the middle of a step
  std::uint64_t bytes_sent = 0;        // to other ranks
  std::uint64_t memory_bytes = 0;      // of its weights and its KV cache
  double recent_share = 0;             // of the last steps' time: communication and waiting
  friend bool operator==(const RankLoad&, const RankLoad&) = default;
};

// Consecutive pieces, `begin` to before `end`.
struct RankPart {
  std::int32_t begin = 0, end = 0;
  friend bool operator==(const RankPart&, const RankPart&) = default;
};

// A rank as others see it: its place on the mesh, what it has of the model, and its load.
struct RankStats {
  std::int32_t rank = 0, pipe = 0, tensor = 0;
  RankPart layers = {}, heads = {}, columns = {}, vocabulary = {};
  RankLoad load = {};
  std::uint64_t losses = 0;  // times that all ranks were started anew because of this one
  friend bool operator==(const RankStats&, const RankStats&) = default;
};

class RankCounters {
 public:
  void SetMemory(std::uint64_t bytes) { memory_bytes_.store(bytes, kRelaxed); }

  // A step's times. `step.bytes_sent` is a sum already.
  void Add(const RankLoad& step) {
    constexpr double kRecent = 1.0 / 64;  // weight of one step
    Grow(steps_, step.steps);
    Grow(busy_ns_, step.busy_ns);
    Grow(communication_ns_, step.communication_ns);
    Grow(waiting_ns_, step.waiting_ns);
    bytes_sent_.store(step.bytes_sent, kRelaxed);
    const auto others_ns = static_cast<double>(step.communication_ns + step.waiting_ns);
    recent_others_ns_ += kRecent * (others_ns - recent_others_ns_);
    recent_ns_ += kRecent * (others_ns + static_cast<double>(step.busy_ns) - recent_ns_);
    recent_share_.store(recent_ns_ > 0 ? recent_others_ns_ / recent_ns_ : 0, kRelaxed);
  }

  RankLoad Read() const {
    return {.steps = steps_.load(kRelaxed),
            .busy_ns = busy_ns_.load(kRelaxed),
            .communication_ns = communication_ns_.load(kRelaxed),
            .waiting_ns = waiting_ns_.load(kRelaxed),
            .bytes_sent = bytes_sent_.load(kRelaxed),
            .memory_bytes = memory_bytes_.load(kRelaxed),
            .recent_share = recent_share_.load(kRelaxed)};
  }

 private:
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;
  // One thread writes, so there is no need to lock the line for it.
  static void Grow(std::atomic<std::uint64_t>& sum, std::uint64_t by) { sum.store(sum.load(kRelaxed) + by, kRelaxed); }

  std::atomic<std::uint64_t> steps_{0}, busy_ns_{0}, communication_ns_{0}, waiting_ns_{0}, bytes_sent_{0}, memory_bytes_{0};
  std::atomic<double> recent_share_{0};
  double recent_others_ns_ = 0, recent_ns_ = 0;  // the adding thread's
};

}  // namespace skein::engine
