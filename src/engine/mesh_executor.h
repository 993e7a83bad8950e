// SPDX-License-Identifier: Apache-2.0
//
// MeshExecutor computes steps with a model on a mesh of ranks, this process's first rank among them: it tells the others each plan, computes its
// own part, and has the result from the rank that samples. With several pipe stages several plans are under way at once.
//
// Thread rule: the engine thread is worker 0 of the first rank's pool.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "base/status.h"
#include "engine/executor.h"
#include "engine/mesh_rank.h"

namespace skein::engine {

class MeshExecutor final : public Executor {
 public:
  // Called when a rank is lost; afterwards every step ends with that error. Not called at all on a mesh of one rank.
  using OnLost = std::function<void(const Status&)>;

  // `first` is rank 0 of its mesh; the others Follow.
  explicit MeshExecutor(std::unique_ptr<MeshRank> first, OnLost on_lost = {});
  // Tells the other ranks that no plan will follow.
  ~MeshExecutor() override;

  // A model on one rank.
  static Result<std::unique_ptr<MeshExecutor>> Create(const model::Model& model, kernels::ThreadPool& pool,
                                                      const MeshRankOptions& options, const Clock& clock);

  const ExecutorLimits& limits() const override { return limits_; }
  void Submit(const scheduler::StepPlan& plan) override;
  scheduler::StepResult Wait() override;

 private:
  Status Begin(const scheduler::StepPlan& plan, scheduler::StepResult& result);
  void Lost(const Status& status);

  std::unique_ptr<MeshRank> first_;
  OnLost on_lost_;
  ExecutorLimits limits_;
  std::deque<scheduler::StepResult> results_;
  std::vector<std::byte> bytes_;
  Status status_;  // of the mesh
};

}  // namespace skein::engine
