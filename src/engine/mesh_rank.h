// SPDX-License-Identifier: Apache-2.0
//
// MeshRank is one rank's part of a step: its Decoder on its KvStore and pool of threads, and what it must know of sequences. Every rank of a
// mesh applies every plan. The rank that *samples* (the first of the last pipe stage) turns logits into the step's result.
//
// Thread rule: the caller is worker 0 of the pool.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "comm/communicator.h"
#include "comm/mesh.h"
#include "engine/executor.h"
#include "engine/sampler.h"
#include "engine/step_inputs.h"
#include "kernels/threads/thread_pool.h"
#include "model/decoder.h"
#include "model/kv_store.h"
#include "model/model.h"

namespace skein::engine {

struct MeshRankOptions {
  kernels::KvType kv_type = kernels::KvType::kBf16;
  std::uint32_t frames = 0;         // of the KV store, 64 tokens each
  std::int32_t context = 0;         // longest sequence
  std::int32_t step_tokens = 512;   // model::Decoder::Limits
  std::int32_t step_outputs = 64;
};

// Whom a rank talks to. A mesh of one rank needs none; an axis of one rank has none.
struct MeshLinks {
  std::unique_ptr<comm::Communicator> everyone, pipe, tensor;
};

class MeshRank {
 public:
  // `model` (with the share of `rank`), `pool` and `clock` outlive this. Errors: kLimit when memory cannot be had, kInvalidArgument when the
  // KV type does not go with the model's arithmetic.
  static Result<std::unique_ptr<MeshRank>> Create(const model::Model& model, kernels::ThreadPool& pool, const comm::Mesh& mesh,
                                                  comm::Rank rank, MeshLinks links, const MeshRankOptions& options, const Clock& clock);

  const ExecutorLimits& limits() const { return limits_; }
  comm::Rank rank() const { return rank_; }
  const comm::Mesh& mesh() const { return mesh_; }
  comm::Rank sampling_rank() const { return sampling_; }
  bool samples() const { return rank_ == sampling_; }
  comm::Communicator* everyone() { return links_.everyone.get(); }

  // Computes this rank's part of the plan; on the sampling rank the result's rows as well. A plan that cannot be is an error in `result`, the
  // same one on every rank. Errors: kUnavailable naming a rank that was lost; the mesh is of no use afterwards.
  Status Run(const scheduler::StepPlan& plan, scheduler::StepResult& result);

  // For ranks but the first: runs plans as they come until the first rank ends. Errors: as Run.
  Status Follow();

 private:
  MeshRank(const model::Model& model, kernels::ThreadPool& pool, const comm::Mesh& mesh, comm::Rank rank, MeshLinks links,
           const ExecutorLimits& limits, const Clock& clock);
  Status Compute(const scheduler::StepPlan& plan, scheduler::StepResult& result);
  Result<std::span<const float>> GatherLogits(std::span<const float> mine);
  void ReadOutputs(const scheduler::StepPlan& plan, std::span<const float> logits, scheduler::StepResult& result);

  // One position whose logits become a scored token, for a worker to take.
  struct Reading {
    std::int32_t plan_row = 0;
    std::int32_t output = 0;          // row of the logits
    std::int32_t place = 0;           // in RowResult::scored
    scheduler::RowResult* into = nullptr;
  };
  void Read(const scheduler::StepPlan& plan, const Reading& reading, std::span<const float> logits, Sampler& sampler);

  const model::Model& model_;
  const ExecutorLimits limits_;
  kernels::ThreadPool& pool_;
  const Clock& clock_;
  const comm::Mesh mesh_;
  const comm::Rank rank_, sampling_;
  MeshLinks links_;
  std::unique_ptr<model::KvStore> kv_;
  std::unique_ptr<model::Decoder> decoder_;
  StepInputs inputs_;
  std::vector<Sampler> samplers_;  // one per worker
  std::vector<Reading> readings_;
  std::vector<std::span<const std::uint64_t>> masks_;  // by row of the plan
  std::vector<float> gathered_, logits_;               // of ranks that share the vocabulary: by rank; [outputs, vocabulary]
  std::vector<std::size_t> gathered_bytes_;
  std::uint64_t gather_ns_ = 0;
};

// A value of bytes that everybody gets from the first rank, whatever its length.
Status BroadcastBytes(comm::Communicator& everyone, std::vector<std::byte>& bytes);
// One that goes from one rank to another.
Status SendBytes(comm::Communicator& everyone, int to, std::span<const std::byte> bytes);
Status ReceiveBytes(comm::Communicator& everyone, int from, std::vector<std::byte>& bytes);

}  // namespace skein::engine
