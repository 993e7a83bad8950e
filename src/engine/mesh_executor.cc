// SPDX-License-Identifier: Apache-2.0
#include "engine/mesh_executor.h"

#include <utility>

#include "base/check.h"
#include "scheduler/step_wire.h"

namespace skein::engine {

using scheduler::StepPlan;
using scheduler::StepResult;

Result<std::unique_ptr<MeshExecutor>> MeshExecutor::Create(const model::Model& model, kernels::ThreadPool& pool,
                                                           const MeshRankOptions& options, const Clock& clock) {
  SKEIN_ASSIGN_OR_RETURN(const comm::Mesh mesh, comm::Mesh::Create({1, 1, 1, 1}));
  SKEIN_ASSIGN_OR_RETURN(std::unique_ptr<MeshRank> only, MeshRank::Create(model, pool, mesh, {0}, {}, options, clock));
  return std::make_unique<MeshExecutor>(std::move(only));
}

MeshExecutor::MeshExecutor(std::unique_ptr<MeshRank> first, OnLost on_lost)
    : first_(std::move(first)), on_lost_(std::move(on_lost)), limits_(first_->limits()) {
  SKEIN_CHECK(first_->rank().value == 0);
}

MeshExecutor::~MeshExecutor() {
  if (first_->everyone() == nullptr || !status_.ok()) return;
  bytes_.clear();
  static_cast<void>(BroadcastBytes(*first_->everyone(), bytes_));
  first_->everyone()->transport().Drain();
}

void MeshExecutor::Lost(const Status& status) {
  if (!status_.ok()) return;
  status_ = status;
  if (on_lost_) on_lost_(status);
}

Status MeshExecutor::Begin(const StepPlan& plan, StepResult& result) {
  SKEIN_RETURN_IF_ERROR(status_);
  if (first_->everyone() != nullptr) {
    bytes_ = scheduler::EncodePlan(plan);
    SKEIN_RETURN_IF_ERROR(BroadcastBytes(*first_->everyone(), bytes_));
  }
  return first_->Run(plan, result);
}

void MeshExecutor::Submit(const StepPlan& plan) {
  SKEIN_CHECK(results_.size() < static_cast<std::size_t>(limits_.plans_in_flight));
  StepResult& result = results_.emplace_back();
  if (const Status status = Begin(plan, result); !status.ok()) {
    Lost(status);
    result.step = plan.step;
    result.rows.clear();
    result.error = status.message();
  }
}

StepResult MeshExecutor::Wait() {
  SKEIN_CHECK(!results_.empty());
  StepResult result = std::move(results_.front());
  results_.pop_front();
  if (first_->samples() || !status_.ok()) return result;
  // It was computed elsewhere, plan after plan.
  const auto receive = [&]() -> Status {
    SKEIN_RETURN_IF_ERROR(ReceiveBytes(*first_->everyone(), first_->sampling_rank().value, bytes_));
    SKEIN_ASSIGN_OR_RETURN(result, scheduler::DecodeResult(bytes_));
    return OkStatus();
  };
  const StepId step = result.step;
  if (const Status status = receive(); !status.ok()) {
    Lost(status);
    result = {.step = step, .error = std::string(status.message())};
  }
  return result;
}

}  // namespace skein::engine
