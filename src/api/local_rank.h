// SPDX-License-Identifier: Apache-2.0
//
// LocalRank is one rank of a mesh in this process: its share of the weights, its threads and its MeshRank. ThreadMesh is a whole mesh of
// them (transport `threads`): the first rank belongs to the engine thread, each other one has a thread that follows it.
//
// Thread rule: made by one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "api/machine.h"
#include "base/clock.h"
#include "base/status.h"
#include "comm/mesh.h"
#include "comm/transports/arena.h"
#include "engine/mesh_executor.h"
#include "formats/model_file.h"
#include "kernels/threads/thread_pool.h"
#include "model/model.h"
#include "skein/engine.h"

namespace skein::api {

struct LocalRankRequest {
  const formats::ModelFile& file;
  const Machine& machine;
  const comm::Mesh& mesh;
  comm::Rank rank = {0};
  std::uint64_t kv_tokens = 0;  // that the cache holds
  int context = 0;
};

// Of one wait while ranks load, not all equally fast; that the others are alive is the supervisor's business.
inline constexpr std::chrono::hours kLoadPatience{24};
// Of one wait within a step. A lost rank is noticed sooner, by its supervisor; this ends a group that has come apart.
inline constexpr std::chrono::seconds kStepPatience{30};

// This rank's end of the group that is number `index` of mesh.TalkingGroups().
using TransportMaker = std::function<Result<std::unique_ptr<comm::Transport>>(std::size_t index, const comm::Group& group)>;

// How rank `self`, of `threads` threads, talks to a group: it may spin while it waits where the ranks of its host have a core each.
comm::TransportOptions TransportOptionsFor(const comm::Mesh& mesh, comm::Rank self, int threads, const comm::Group& group,
                                           std::chrono::nanoseconds timeout);

class LocalRank {
 public:
  // `clock` outlives it. Errors: as Engine::Load.
  static Result<std::unique_ptr<LocalRank>> Load(const LocalRankRequest& request, const TransportMaker& transports,
                                                 const LoadProgress& progress, const Clock& clock);

  const model::Model& model() const { return *model_; }
  engine::MeshRank& mesh_rank() { return *rank_; }
  // What travels, after it was chosen.
  const comm::WireTypes& wire() const { return wire_; }
  const std::shared_ptr<const engine::RankCounters>& counters() const { return counters_; }
  // For the first rank: what the engine runs. It takes mesh_rank, and must go before this.
  std::unique_ptr<engine::MeshExecutor> TakeExecutor(engine::MeshExecutor::OnLost on_lost);

 private:
  std::unique_ptr<kernels::ThreadPool> pool_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<engine::MeshRank> rank_;
  comm::WireTypes wire_;
  std::shared_ptr<const engine::RankCounters> counters_;
};

// What a rank loads of the model, and with how many threads: those of a host are shared out among its ranks.
model::Share ShareOf(const formats::ModelConfig& config, const Machine& machine, const comm::Mesh& mesh, comm::Rank rank);
int ThreadsOf(const Machine& machine, const comm::Mesh& mesh);
// Places and shares of all ranks, by rank; nothing of what they have done.
Result<std::vector<engine::RankStats>> RanksOf(const formats::ModelConfig& config, const Machine& machine);
// Of the slots of an arena for `group`.
std::size_t SlotBytes(const formats::ModelConfig& config, const Machine& machine, const comm::Mesh& mesh, const comm::Group& group);

class ThreadMesh {
 public:
  // Loads all ranks, side by side.
  static Result<std::unique_ptr<ThreadMesh>> Load(const formats::ModelFile& file, const Machine& machine, std::uint64_t kv_tokens, int context,
                                                  const LoadProgress& progress, const Clock& clock);
  // The first rank's executor must have gone: that ends the others.
  ~ThreadMesh();

  LocalRank& first() { return *ranks_.front(); }
  // By rank; for any thread.
  std::vector<std::shared_ptr<const engine::RankCounters>> Counters() const;

 private:
  ThreadMesh() = default;
  Status LoadRanks(const formats::ModelFile& file, const Machine& machine, std::uint64_t kv_tokens, int context,
                   const LoadProgress& progress, const Clock& clock);

  std::vector<comm::Arena> arenas_;  // by group
  std::vector<std::unique_ptr<LocalRank>> ranks_;
  std::vector<std::thread> followers_;
};

}  // namespace skein::api
