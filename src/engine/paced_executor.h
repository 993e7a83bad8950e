// SPDX-License-Identifier: Apache-2.0
//
// PacedExecutor makes the steps of another executor take the time that they say they took: with a simulated one, a server
// lives through what a model would put it through, on as many pipe stages as are given, and computes nothing.
//
// Thread rule: as Executor.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <utility>

#include "engine/executor.h"
#include "engine/stage_times.h"

namespace skein::engine {

class PacedExecutor final : public Executor {
 public:
  explicit PacedExecutor(std::unique_ptr<Executor> inner, std::int32_t stages = 1)
      : inner_(std::move(inner)), stages_(stages) {}

  const ExecutorLimits& limits() const override { return inner_->limits(); }
  void Submit(const scheduler::StepPlan& plan) override {
    submitted_.push_back(Clock::now());
    inner_->Submit(plan);
  }
  scheduler::StepResult Wait() override {
    scheduler::StepResult result = inner_->Wait();
    const std::int64_t submitted_ns = std::chrono::nanoseconds(submitted_.front() - begin_).count();
    const std::int64_t ready_ns = stages_.Pass(submitted_ns, static_cast<std::int64_t>(result.compute_ns));
    std::this_thread::sleep_until(begin_ + std::chrono::nanoseconds(ready_ns));
    submitted_.pop_front();
    return result;
  }
  void Recycle(scheduler::StepResult result) override { inner_->Recycle(std::move(result)); }

 private:
  using Clock = std::chrono::steady_clock;

  std::unique_ptr<Executor> inner_;
  const Clock::time_point begin_ = Clock::now();
  StageTimes stages_;
  std::deque<Clock::time_point> submitted_;
};

}  // namespace skein::engine
