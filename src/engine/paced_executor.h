// SPDX-License-Identifier: Apache-2.0
//
// PacedExecutor makes the steps of another executor take the time that they say they took: with a simulated one, a server
// lives through what a model would put it through, and computes nothing.
//
// Thread rule: as Executor.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <thread>
#include <utility>

#include "engine/executor.h"

namespace skein::engine {

class PacedExecutor final : public Executor {
 public:
  explicit PacedExecutor(std::unique_ptr<Executor> inner) : inner_(std::move(inner)) {}

  const ExecutorLimits& limits() const override { return inner_->limits(); }
  void Submit(const scheduler::StepPlan& plan) override {
    submitted_.push_back(std::chrono::steady_clock::now());
    inner_->Submit(plan);
  }
  scheduler::StepResult Wait() override {
    scheduler::StepResult result = inner_->Wait();
    std::this_thread::sleep_until(submitted_.front() + std::chrono::nanoseconds(result.compute_ns));
    submitted_.pop_front();
    return result;
  }
  void Recycle(scheduler::StepResult result) override { inner_->Recycle(std::move(result)); }

 private:
  std::unique_ptr<Executor> inner_;
  std::deque<std::chrono::steady_clock::time_point> submitted_;
};

}  // namespace skein::engine
