// SPDX-License-Identifier: Apache-2.0
//
// MeshExecutor computes steps with a model; today with one rank, in the engine's process: one Decoder on one KvStore and
// one pool of threads. Sampling happens here, spread over the workers.
//
// Thread rule: the engine thread is worker 0 of the pool.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/executor.h"
#include "engine/sampler.h"
#include "engine/step_inputs.h"
#include "kernels/threads/thread_pool.h"
#include "model/decoder.h"
#include "model/kv_store.h"
#include "model/model.h"

namespace skein::engine {

struct MeshExecutorOptions {
  kernels::KvType kv_type = kernels::KvType::kBf16;
  std::uint32_t frames = 0;         // of the KV store, 64 tokens each
  std::int32_t context = 0;         // longest sequence
  std::int32_t step_tokens = 512;   // model::Decoder::Limits
  std::int32_t step_outputs = 64;
};

class MeshExecutor final : public Executor {
 public:
  // `model`, `pool` and `clock` outlive the executor. Errors: kLimit when memory cannot be had, kInvalidArgument when the
  // KV type does not go with the model's arithmetic.
  static Result<std::unique_ptr<MeshExecutor>> Create(const model::Model& model, kernels::ThreadPool& pool,
                                                      const MeshExecutorOptions& options, const Clock& clock);

  const ExecutorLimits& limits() const override { return limits_; }
  void Submit(const scheduler::StepPlan& plan) override;
  scheduler::StepResult Wait() override;

 private:
  MeshExecutor(const model::Model& model, kernels::ThreadPool& pool, const ExecutorLimits& limits, const Clock& clock);
  void Compute(const scheduler::StepPlan& plan, scheduler::StepResult& result);
  void ReadOutputs(const scheduler::StepPlan& plan, std::span<const float> logits, scheduler::StepResult& result);

  // One position whose logits become a scored token, for a worker to take.
  struct Reading {
    std::int32_t plan_row = 0;
    std::int32_t output = 0;          // row of the logits
    std::int32_t place = 0;           // in RowResult::scored
    scheduler::RowResult* into = nullptr;
  };
  void Read(const scheduler::StepPlan& plan, const Reading& reading, std::span<const float> logits, Sampler& sampler);

  const ExecutorLimits limits_;
  kernels::ThreadPool& pool_;
  const Clock& clock_;
  std::unique_ptr<model::KvStore> kv_;
  std::unique_ptr<model::Decoder> decoder_;
  StepInputs inputs_;
  std::vector<Sampler> samplers_;  // one per worker
  std::vector<Reading> readings_;
  std::vector<std::span<const std::uint64_t>> masks_;  // by row of the plan
  std::deque<scheduler::StepResult> results_;
};

}  // namespace skein::engine
