// SPDX-License-Identifier: Apache-2.0
#include "api/local_rank.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "api/wire_choice.h"
#include "comm/communicator.h"
#include "comm/transports/shared_memory.h"
#include "model/share.h"

namespace skein::api {
namespace {

// Adds up what ranks that load side by side have read.
class SharedProgress {
 public:
  SharedProgress(const LoadProgress& progress, std::size_t ranks) : progress_(progress), done_(ranks), total_(ranks) {}

  // What rank `rank` reports to; only the first one's thread tells.
  LoadProgress For(std::size_t rank) {
    if (!progress_) return {};
    return [this, rank](std::uint64_t done, std::uint64_t total) {
      done_[rank].store(done);
      total_[rank].store(total);
      if (rank == 0) progress_(Sum(done_), Sum(total_));
    };
  }
  void Finish() {
    if (progress_) progress_(Sum(total_), Sum(total_));
  }

 private:
  static std::uint64_t Sum(const std::vector<std::atomic<std::uint64_t>>& values) {
    std::uint64_t sum = 0;
    for (const auto& value : values) sum += value.load();
    return sum;
  }
  const LoadProgress& progress_;
  std::vector<std::atomic<std::uint64_t>> done_, total_;
};

// `wire` is what the machine says, or chosen once all ranks have come.
Result<engine::MeshLinks> MakeLinks(const LocalRankRequest& request, const TransportMaker& transports, kernels::KernelPath path, comm::WireTypes& wire) {
  engine::MeshLinks links;
  const comm::Mesh& mesh = request.mesh;
  const std::vector<comm::Group> groups = mesh.TalkingGroups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    comm::Group group = groups[i];
    const auto self = std::find(group.ranks.begin(), group.ranks.end(), request.rank);
    if (self == group.ranks.end()) continue;
    group.self = static_cast<int>(self - group.ranks.begin());
    SKEIN_ASSIGN_OR_RETURN(std::unique_ptr<comm::Transport> transport, transports(i, group));
    std::unique_ptr<comm::Communicator>* into = &links.everyone;
    if (i > 0) into = group.ranks == mesh.GroupOf(comm::Axis::kTensor, request.rank).ranks ? &links.tensor : &links.pipe;
    *into = std::make_unique<comm::Communicator>(std::move(group), std::move(transport),
                                                 comm::CommunicatorOptions{.wire = wire, .kernels = path});
    if (i == 0 && request.machine.choose_wire) {
      SKEIN_ASSIGN_OR_RETURN(wire, ChooseWire(**into));
    }
  }
  return links;
}

}  // namespace

model::Share ShareOf(const formats::ModelConfig& config, const Machine& machine, const comm::Mesh& mesh, comm::Rank rank) {
  return model::ShareOf(config, {.shape = mesh.shape(), .at = mesh.PlacesOf(rank), .by_slice = machine.by_slice, .speeds = machine.rank_speeds});
}

// A stage hands the residual of a whole step on in one slot, where it can, and goes on: the next one takes it when it comes to it.
std::size_t SlotBytes(const formats::ModelConfig& config, const Machine& machine, const comm::Mesh& mesh, const comm::Group& group) {
  constexpr std::size_t kSlotMax = 16 << 20, kPage = 4096;
  if (mesh.shape().pipe == 1 || group.ranks != mesh.GroupOf(comm::Axis::kPipe, group.ranks.front()).ranks) return comm::Arena::kSlotBytes;
  const std::size_t residual = (static_cast<std::size_t>(config.hidden) + 32) * static_cast<std::size_t>(machine.step_tokens) * sizeof(float);
  return std::clamp((residual + kPage - 1) / kPage * kPage, comm::Arena::kSlotBytes, kSlotMax);
}

Result<std::vector<engine::RankStats>> RanksOf(const formats::ModelConfig& config, const Machine& machine) {
  SKEIN_ASSIGN_OR_RETURN(const comm::Mesh mesh, comm::Mesh::Create(machine.mesh));
  std::vector<engine::RankStats> ranks;
  const auto part = [](const model::Span& span) { return engine::RankPart{span.begin, span.end}; };
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const model::Share share = ShareOf(config, machine, mesh, {rank});
    const comm::Places at = mesh.PlacesOf({rank});
    engine::RankStats& stats = ranks.emplace_back();
    stats.rank = rank;
    stats.pipe = at.pipe;
    stats.tensor = at.tensor;
    stats.layers = part(share.layers);
    stats.heads = part(share.heads);
    stats.columns = part(share.columns);
    stats.vocabulary = part(share.vocabulary);
  }
  return ranks;
}

int ThreadsOf(const Machine& machine, const comm::Mesh& mesh) {
  const std::vector<int> hosts = HostOfRanks(machine, mesh);
  std::ptrdiff_t most = 1;  // ranks of one host
  for (const int host : hosts) most = std::max(most, std::count(hosts.begin(), hosts.end(), host));
  return std::max(1, machine.threads / static_cast<int>(most));
}

comm::TransportOptions TransportOptionsFor(const comm::Mesh& mesh, comm::Rank self, int threads, const comm::Group& group,
                                           std::chrono::nanoseconds timeout) {
  int here = 0;  // ranks of this host
  for (int rank = 0; rank < mesh.ranks(); ++rank) here += mesh.HostOf({rank}) == mesh.HostOf(self) ? 1 : 0;
  comm::TransportOptions options{.timeout = timeout, .spin = threads * here <= kernels::AvailableCores()};
  for (const comm::Rank rank : group.ranks) options.ranks.push_back(rank.value);
  return options;
}

Result<std::unique_ptr<LocalRank>> LocalRank::Load(const LocalRankRequest& request, const TransportMaker& transports,
                                                   const LoadProgress& progress, const Clock& clock) {
  const Machine& machine = request.machine;
  std::unique_ptr<LocalRank> made(new LocalRank);
  made->pool_ = std::make_unique<kernels::ThreadPool>(ThreadsOf(machine, request.mesh));
  model::LoadOptions options;
  options.arithmetic = machine.arithmetic;
  options.path = machine.path;
  options.packed_cache = machine.packed_cache;
  options.progress = progress;
  options.share = ShareOf(request.file.config(), machine, request.mesh, request.rank);
  const auto frames = static_cast<std::uint32_t>(request.kv_tokens / kernels::kFrameTokens);
  options.other_bytes = frames * model::KvStore::FrameBytes(model::LocalConfig(request.file.config(), *options.share), *machine.kv_type);
  SKEIN_ASSIGN_OR_RETURN(made->model_, model::Model::Load(request.file, options, *made->pool_));
  made->wire_ = machine.wire;
  SKEIN_ASSIGN_OR_RETURN(engine::MeshLinks links, MakeLinks(request, transports, made->model_->path(), made->wire_));
  for (const auto* link : {&links.everyone, &links.tensor, &links.pipe}) {
    if (*link != nullptr && request.machine.processes()) (*link)->transport().set_timeout(kStepPatience);
  }
  SKEIN_ASSIGN_OR_RETURN(made->rank_, engine::MeshRank::Create(*made->model_, *made->pool_, request.mesh, request.rank, std::move(links),
                                                               {.kv_type = *machine.kv_type,
                                                                .frames = frames,
                                                                .context = request.context,
                                                                .step_tokens = machine.step_tokens,
                                                                .step_outputs = machine.step_outputs,
                                                                .overlap = machine.overlap,
                                                                .phases = request.rank.value == 0 ? machine.phases.get() : nullptr},
                                                               clock));
  made->counters_ = made->rank_->counters();
  return made;
}

std::unique_ptr<engine::MeshExecutor> LocalRank::TakeExecutor(engine::MeshExecutor::OnLost on_lost) {
  return std::make_unique<engine::MeshExecutor>(std::move(rank_), std::move(on_lost));
}

Result<std::unique_ptr<ThreadMesh>> ThreadMesh::Load(const formats::ModelFile& file, const Machine& machine, std::uint64_t kv_tokens,
                                                     int context, const LoadProgress& progress, const Clock& clock) {
  std::unique_ptr<ThreadMesh> made(new ThreadMesh);
  SKEIN_RETURN_IF_ERROR(made->LoadRanks(file, machine, kv_tokens, context, progress, clock));
  return made;
}

Status ThreadMesh::LoadRanks(const formats::ModelFile& file, const Machine& machine, std::uint64_t kv_tokens, int context,
                             const LoadProgress& progress, const Clock& clock) {
  SKEIN_ASSIGN_OR_RETURN(const comm::Mesh mesh, comm::Mesh::Create(machine.mesh));
  for (const comm::Group& group : mesh.TalkingGroups()) {
    SKEIN_ASSIGN_OR_RETURN(comm::Arena arena, comm::Arena::InProcess(group.size(), SlotBytes(file.config(), machine, mesh, group)));
    arenas_.push_back(std::move(arena));
  }
  const TransportMaker transports = [&, threads = ThreadsOf(machine, mesh)](std::size_t index, const comm::Group& group) {
    constexpr std::chrono::hours kLateNotLost{1};  // threads of this process
    return comm::SharedMemoryTransport::Create(arenas_[index], group.self, TransportOptionsFor(mesh, {0}, threads, group, kLateNotLost));
  };
  SharedProgress all_progress(progress, static_cast<std::size_t>(mesh.ranks()));
  ranks_.resize(static_cast<std::size_t>(mesh.ranks()));
  std::vector<Status> statuses(ranks_.size());
  const auto load = [&](std::size_t rank) {
    auto loaded = LocalRank::Load({file, machine, mesh, {static_cast<int>(rank)}, kv_tokens, context}, transports, all_progress.For(rank), clock);
    if (loaded.ok()) ranks_[rank] = std::move(loaded).value();
    else statuses[rank] = loaded.status();
  };
  std::vector<std::thread> loading;
  for (std::size_t rank = 1; rank < ranks_.size(); ++rank) loading.emplace_back(load, rank);
  load(0);
  for (std::thread& thread : loading) thread.join();
  for (const Status& status : statuses) SKEIN_RETURN_IF_ERROR(status);
  all_progress.Finish();
  for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
    followers_.emplace_back([mesh_rank = &ranks_[rank]->mesh_rank()] { static_cast<void>(mesh_rank->Follow()); });
  }
  return OkStatus();
}

std::vector<std::shared_ptr<const engine::RankCounters>> ThreadMesh::Counters() const {
  std::vector<std::shared_ptr<const engine::RankCounters>> counters;
  for (const auto& rank : ranks_) counters.push_back(rank->counters());
  return counters;
}

ThreadMesh::~ThreadMesh() {
  for (std::thread& follower : followers_) follower.join();
}

}  // namespace skein::api
