// SPDX-License-Identifier: Apache-2.0
#include "api/process_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "api/local_rank.h"
#include "comm/transports/arena.h"
#include "comm/transports/mpi.h"
#include "comm/transports/routed.h"
#include "comm/transports/shared_memory.h"
#include "formats/model_server.h"
#include "formats/remote_model.h"

namespace skein::api {
namespace {

constexpr const char* kChosenWire = "auto";

// Everything that lives in a rank's process, in the order in which it is made.
struct ComputingProcess {
  SteadyClock clock;
  std::unique_ptr<formats::ModelFile> file;
  std::optional<comm::MpiJob> job;
  std::vector<comm::Arena> arenas;  // by group; of `shm`
  std::unique_ptr<LocalRank> rank;
  std::unique_ptr<engine::Engine> engine;
};

supervisor::RankSetup SetupOf(const std::string& path, const Machine& machine, const comm::Mesh& mesh, std::uint64_t kv_tokens, int context) {
  supervisor::RankSetup setup;
  setup.mesh = machine.mesh;
  setup.transport = machine.transport;
  setup.model = path;
  setup.threads = ThreadsOf(machine, mesh);
  if (machine.arithmetic) setup.arithmetic = NameOf(*machine.arithmetic);
  if (machine.path) setup.kernels = NameOf(*machine.path);
  if (machine.kv_type) setup.kv_type = NameOf(*machine.kv_type);
  setup.packed_cache = machine.packed_cache;
  setup.context = context;
  setup.step_tokens = machine.step_tokens;
  setup.fixed_step = machine.fixed_step;
  setup.step_outputs = machine.step_outputs;
  setup.sequences = machine.sequences;
  setup.kv_tokens = kv_tokens;
  setup.requests = machine.requests;
  setup.policy = machine.policy;
  setup.prefix_cache = machine.prefix_cache;
  setup.wire = NameOf(machine.wire.inner);
  setup.outer_wire = machine.choose_wire ? kChosenWire : NameOf(machine.wire.outer);
  setup.streamed = machine.by_network();
  if (machine.overlap) setup.overlap = *machine.overlap ? "on" : "off";
  setup.rank_speeds = machine.rank_speeds;
  setup.by_slice = machine.by_slice;
  return setup;
}

// A value of a setup, as its enumeration has it; nothing is left open.
template <typename T>
Status Read(const std::string& word, const char* field, std::optional<T> (*from_name)(std::string_view), std::optional<T>& into) {
  if (word.empty()) return OkStatus();
  into = from_name(word);
  return into ? OkStatus() : InvalidArgument(fmt::format("a rank was told {} '{}', which this program has not", field, word), field);
}

Result<Machine> MachineOf(const supervisor::RankSetup& setup) {
  Machine machine;
  machine.mesh = setup.mesh;
  machine.transport = setup.transport;
  machine.threads = setup.threads * setup.ranks();  // they are shared out again
  SKEIN_RETURN_IF_ERROR(Read(setup.arithmetic, "arithmetic", kernels::ArithmeticFromName, machine.arithmetic));
  SKEIN_RETURN_IF_ERROR(Read(setup.kernels, "kernels", kernels::KernelPathFromName, machine.path));
  SKEIN_RETURN_IF_ERROR(Read(setup.kv_type, "kv-dtype", kernels::KvTypeFromName, machine.kv_type));
  std::optional<comm::WireType> wire;
  SKEIN_RETURN_IF_ERROR(Read(setup.wire, "wire", comm::WireTypeFromName, wire));
  if (wire) machine.wire = {*wire, *wire};
  machine.choose_wire = setup.outer_wire == kChosenWire;
  if (!machine.choose_wire) {
    SKEIN_RETURN_IF_ERROR(Read(setup.outer_wire, "wire", comm::WireTypeFromName, wire));
    if (wire) machine.wire.outer = *wire;
  }
  if (!machine.kv_type) return InvalidArgument("a rank was told no KV type", "kv-dtype");
  machine.packed_cache = setup.packed_cache;
  machine.context = setup.context;
  machine.step_tokens = setup.step_tokens;
  machine.fixed_step = setup.fixed_step;
  machine.step_outputs = setup.step_outputs;
  machine.sequences = setup.sequences;
  machine.kv_tokens = setup.kv_tokens;
  machine.requests = setup.requests;
  machine.policy = setup.policy;
  machine.prefix_cache = setup.prefix_cache;
  if (!setup.overlap.empty()) machine.overlap = setup.overlap == "on";
  machine.rank_speeds = setup.rank_speeds;
  machine.by_slice = setup.by_slice;
  return machine;
}

// Joins the MPI job where there is one; the mesh with its ranks' hosts.
Result<comm::Mesh> MeshOf(const supervisor::RankSetup& setup, ComputingProcess& process) {
  if (setup.transport != "mpi") return comm::Mesh::Create(setup.mesh);
  SKEIN_ASSIGN_OR_RETURN(comm::MpiJob job, comm::MpiJob::Join());
  if (job.size() != setup.ranks() || job.rank() != setup.rank) {
    return InvalidArgument(fmt::format("the MPI job says rank {} of {}, the supervisor {} of {}", job.rank(), job.size(), setup.rank, setup.ranks()));
  }
  process.job.emplace(std::move(job));
  return comm::Mesh::Create(setup.mesh, process.job->hosts());
}

// How this rank reaches its groups: through memory that it inherited, or as a member of an MPI job.
Result<TransportMaker> TransportsOf(const supervisor::RankSetup& setup, const comm::Mesh& mesh, ComputingProcess& process) {
  const auto options_for = [&setup, &mesh](const comm::Group& group) {
    return TransportOptionsFor(mesh, {setup.rank}, setup.threads, group, kLoadPatience);
  };
  if (setup.transport == "mpi") {
    return TransportMaker([&process, options_for](std::size_t index, const comm::Group& group) {
      return comm::RoutedTransport::Create(*process.job, group, static_cast<int>(index) + 1, options_for(group));
    });
  }
  if (setup.arena_descriptors.size() != mesh.TalkingGroups().size()) {
    return InvalidArgument(fmt::format("a rank was given {} memories to share, expected one for each of {} groups", setup.arena_descriptors.size(),
                                       mesh.TalkingGroups().size()));
  }
  for (const std::int32_t descriptor : setup.arena_descriptors) {
    SKEIN_ASSIGN_OR_RETURN(comm::Arena arena, comm::Arena::Attach(descriptor));
    process.arenas.push_back(std::move(arena));
  }
  return TransportMaker([&process, options_for](std::size_t index, const comm::Group& group) {
    return comm::SharedMemoryTransport::Create(process.arenas[index], group.self, options_for(group));
  });
}

// The engine of the first rank, with all that it stands on.
class LeadingEngine final : public engine::EngineClient {
 public:
  LeadingEngine(std::unique_ptr<ComputingProcess> process, std::int64_t clock_offset_ns)
      : process_(std::move(process)), clock_offset_ns_(clock_offset_ns) {}
  Status Submit(engine::RequestSpec request, std::shared_ptr<engine::TokenSink> sink) override {
    if (request.deadline_ns != 0) request.deadline_ns += clock_offset_ns_;
    return process_->engine->Submit(std::move(request), std::move(sink));
  }
  void Cancel(RequestId request) override { process_->engine->Cancel(request); }
  void Wake() override { process_->engine->Wake(); }
  engine::EngineStats Stats() const override { return process_->engine->Stats(); }

 private:
  std::unique_ptr<ComputingProcess> process_;
  const std::int64_t clock_offset_ns_;
};

}  // namespace

Result<std::unique_ptr<supervisor::Supervisor>> StartRanks(const std::string& path, const formats::ModelFile& file, const Machine& machine,
                                                           std::uint64_t kv_tokens, int context, const LoadProgress& progress) {
  SKEIN_ASSIGN_OR_RETURN(const comm::Mesh mesh, comm::Mesh::Create(machine.mesh));
  supervisor::SupervisorOptions options;
  options.replica.setup = SetupOf(path, machine, mesh, kv_tokens, context);
  SKEIN_ASSIGN_OR_RETURN(options.replica.setup.identity, supervisor::IdentityOf(path));
  SKEIN_ASSIGN_OR_RETURN(options.ranks, RanksOf(file.config(), machine));
  options.replica.progress = progress;
  options.replica.hosts = machine.hosts;
  options.replica.by_network = machine.by_network();
  options.replica.control_address = machine.control_address;
  options.replica.remote_program = machine.remote_program;
  if (options.replica.setup.streamed) {
    SKEIN_ASSIGN_OR_RETURN(std::shared_ptr<formats::ModelServer> server, formats::ModelServer::Create(file));
    options.replica.serve_model = [server](Descriptor connection) { server->Add(std::move(connection)); };
  }
  if (machine.transport == "shm") {
    for (const comm::Group& group : mesh.TalkingGroups()) {
      options.replica.arenas.push_back({group.size(), SlotBytes(file.config(), machine, mesh, group)});
    }
  }
  return supervisor::Supervisor::Start(std::move(options));
}

namespace {

// The file where this host has it, else the supervisor's.
Result<std::unique_ptr<formats::ModelFile>> OpenModel(const supervisor::RankContext& context) {
  if (!context.model_is_remote()) return formats::ModelFile::Open(context.setup().model);
  SKEIN_ASSIGN_OR_RETURN(Descriptor connection, context.ConnectToModel());
  return formats::OpenRemoteModel(std::move(connection));
}

}  // namespace

Result<supervisor::RankWork> ComputingRank(supervisor::RankContext& context) {
  const supervisor::RankSetup& setup = context.setup();
  const auto begin = std::chrono::steady_clock::now();
  SKEIN_ASSIGN_OR_RETURN(const Machine machine, MachineOf(setup));
  auto process = std::make_unique<ComputingProcess>();
  SKEIN_ASSIGN_OR_RETURN(process->file, OpenModel(context));
  SKEIN_ASSIGN_OR_RETURN(const comm::Mesh mesh, MeshOf(setup, *process));
  SKEIN_ASSIGN_OR_RETURN(const TransportMaker transports, TransportsOf(setup, mesh, *process));
  const LoadProgress progress = [&context](std::uint64_t done, std::uint64_t total) { context.Progress(done, total); };
  SKEIN_ASSIGN_OR_RETURN(process->rank, LocalRank::Load({*process->file, machine, mesh, {setup.rank}, setup.kv_tokens, setup.context}, transports,
                                                        progress, process->clock));
  supervisor::RankWork work;
  work.load = [counters = process->rank->counters()] { return counters->Read(); };
  const model::Model& model = process->rank->model();
  if (setup.rank != 0) {
    work.run = [&context, process = std::shared_ptr<ComputingProcess>(std::move(process))]() -> Status {
      const Status status = process->rank->mesh_rank().Follow();
      return context.stopping() ? OkStatus() : status;
    };
    return work;
  }
  work.facts = {.limits = process->rank->mesh_rank().limits(),
                .arithmetic = std::string(NameOf(model.arithmetic())),
                .kernels = std::string(NameOf(model.path())),
                .kv_type = std::string(NameOf(*machine.kv_type)),
                .packed_cache = model.cache_use().Word(),
                .packed_cache_trouble = model.cache_use().trouble,
                .context = setup.context,
                .kv_tokens = setup.kv_tokens,
                .threads = setup.threads,
                .wire = std::string(NameOf(process->rank->wire().inner))};
  if (process->job && *std::max_element(process->job->hosts().begin(), process->job->hosts().end()) > 0) {
    work.facts.outer_wire = NameOf(process->rank->wire().outer);
  }
  const engine::EngineOptions options = EngineOptionsOf(machine, process->file->config().name, work.facts.arithmetic, work.facts.kv_type);
  auto executor = process->rank->TakeExecutor([&context](const Status& status) { context.Fail(status); });
  SKEIN_ASSIGN_OR_RETURN(process->engine, engine::Engine::Create(std::move(executor), options, process->clock));
  work.facts.load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  work.client = std::make_shared<LeadingEngine>(std::move(process), context.clock_offset_ns());
  return work;
}

}  // namespace skein::api
