// SPDX-License-Identifier: Apache-2.0
//
// StageTimes says when a step is through a pipe of stages: each stage takes an equal part of the step's time, has one step
// at a time, and takes them in order. For executors that only play what a model would do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace skein::engine {

class StageTimes {
 public:
  // Requires: at least one stage.
  explicit StageTimes(std::int32_t stages) : free_ns_(static_cast<std::size_t>(stages), 0) {}

  // When a step that comes at `now_ns` and takes `cost_ns` over all stages leaves the last one.
  std::int64_t Pass(std::int64_t now_ns, std::int64_t cost_ns) {
    const auto stages = static_cast<std::int64_t>(free_ns_.size());
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      std::int64_t& free_ns = free_ns_[static_cast<std::size_t>(stage)];
      const std::int64_t part_ns = cost_ns * (stage + 1) / stages - cost_ns * stage / stages;
      now_ns = std::max(now_ns, free_ns) + part_ns;
      free_ns = now_ns;
    }
    busy_ns_ += cost_ns;
    return now_ns;
  }

  // What all stages together have worked.
  std::int64_t busy_ns() const { return busy_ns_; }
  std::int32_t stages() const { return static_cast<std::int32_t>(free_ns_.size()); }

 private:
  std::vector<std::int64_t> free_ns_;  // by stage
  std::int64_t busy_ns_ = 0;
};

}  // namespace skein::engine
