// SPDX-License-Identifier: Apache-2.0
//
// MeshRank is one rank's part of a step: its Decoder on its KvStore and pool of threads, and what it must know of sequences. Every rank of a
// mesh applies every plan. The ranks of the last pipe stage turn logits into tokens, together where they share the vocabulary (sharded_sampler.h);
// the first of them *samples*: it has the step's result.
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
#include "engine/rank_load.h"
#include "engine/sampler.h"
#include "engine/sharded_sampler.h"
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
  std::optional<bool> overlap = {};  // model::RankLinks::overlap; empty: where the ranks of a sum are on several hosts
  model::PhaseClock* phases = nullptr;  // for one rank of a mesh, where somebody asks where its time goes; outlives it
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
  // What this rank does, for any thread to read; it may live longer.
  std::shared_ptr<const RankCounters> counters() const { return counters_; }

  // Computes this rank's part of the plan; on the sampling rank the result's rows as well. A plan that cannot be is an error in `result`, the
  // same one on every rank. Errors: kUnavailable naming a rank that was lost; the mesh is of no use afterwards.
  Status Run(const scheduler::StepPlan& plan, scheduler::StepResult& result);

  // For ranks but the first: runs plans as they come until the first rank ends. Errors: as Run.
  Status Follow();

 private:
  MeshRank(const model::Model& model, kernels::ThreadPool& pool, const comm::Mesh& mesh, comm::Rank rank, MeshLinks links,
           const ExecutorLimits& limits, const Clock& clock);
  Status Compute(const scheduler::StepPlan& plan, scheduler::StepResult& result);
  // Puts the times of a step that took so long into its result and into counters_.
  void Account(scheduler::StepResult& result, std::uint64_t taken_ns, std::uint64_t waited_ns);
  std::uint64_t WaitedNs() const;   // so far, for peers within steps: on the tensor and the pipe axis
  std::uint64_t BytesSent() const;  // so far
  // What follows is done by all ranks of the last stage. `logits`: [outputs, this rank's part of the vocabulary].
  Status ReadOutputs(const scheduler::StepPlan& plan, std::span<const float> logits, scheduler::StepResult& result);
  // Rows of the result, and what is to be read for them.
  void ListReadings(const scheduler::StepPlan& plan, scheduler::StepResult& result);
  Status ReadLogits(const scheduler::StepPlan& plan, std::span<const float> logits, scheduler::StepResult& result);
  Status ReadShards(const scheduler::StepPlan& plan, std::span<const float> logits);
  // The bytes of all ranks that share the vocabulary, `sizes_` of each.
  Status Gather(std::span<const std::byte> mine, std::span<std::byte> all);

  // One position whose logits become a scored token, for a worker to take.
  struct Reading {
    std::int32_t plan_row = 0;
    std::int32_t output = 0;          // row of the logits
    std::int32_t place = 0;           // in RowResult::scored
    scheduler::RowResult* into = nullptr;
  };
  // Calls function(reading's index, worker's index) for all readings.
  template <typename Function>
  void ForReadings(Function&& function);
  void Read(const scheduler::StepPlan& plan, const Reading& reading, std::span<const float> logits, Sampler& sampler);
  void Begin(const scheduler::StepPlan& plan, const Reading& reading, std::span<const float> logits, ShardReading& shard);
  SampleWish WishOf(const scheduler::StepPlan& plan, const Reading& reading) const;
  bool shares_vocabulary() const { return links_.tensor != nullptr; }

  const model::Model& model_;
  const ExecutorLimits limits_;
  kernels::ThreadPool& pool_;
  const Clock& clock_;
  const comm::Mesh mesh_;
  const comm::Rank rank_, sampling_;
  MeshLinks links_;
  std::unique_ptr<model::KvStore> kv_;
  model::PhaseClock* phases_ = nullptr;
  std::unique_ptr<model::Decoder> decoder_;
  StepInputs inputs_;
  std::vector<Reading> readings_;
  std::vector<std::span<const std::uint64_t>> masks_;  // by row of the plan
  std::vector<Sampler> samplers_;                      // one per worker, where this rank has the vocabulary alone
  VocabularyShards shards_;                            // where it does not
  std::vector<Sieve> sieves_;                          // one per worker
  std::vector<ShardReading> shard_readings_;           // by reading
  std::vector<std::size_t> places_;                    // of readings in a message of a round; then its length
  std::vector<std::byte> message_, messages_;          // of this rank; of all
  std::vector<std::size_t> sizes_;                     // by rank
  std::vector<float> gathered_;                        // logits by rank
  std::uint64_t gather_ns_ = 0;
  std::shared_ptr<RankCounters> counters_ = std::make_shared<RankCounters>();
};

// A value of bytes that everybody gets from the first rank, whatever its length.
Status BroadcastBytes(comm::Communicator& everyone, std::vector<std::byte>& bytes);
// One that goes from one rank to another.
Status SendBytes(comm::Communicator& everyone, int to, std::span<const std::byte> bytes);
Status ReceiveBytes(comm::Communicator& everyone, int from, std::vector<std::byte>& bytes);

}  // namespace skein::engine
