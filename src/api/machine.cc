// SPDX-License-Identifier: Apache-2.0
#include "api/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <random>
#include <string_view>
#include <system_error>

#include "api/local_rank.h"
#include "kernels/threads/thread_pool.h"

namespace skein::api {
namespace {

constexpr int kThreadsMax = 1024;
constexpr int kStepTokensMax = 65536;
constexpr int kSequencesMax = 4096;
constexpr int kAxisMax = 64;  // ranks of one axis
constexpr double kSpeedMin = 0.01, kSpeedMax = 100;

Status CheckRange(int value, int maximum, const char* name) {
  if (value >= 0 && value <= maximum) return OkStatus();
  return InvalidArgument(fmt::format("{} is a number from 1 to {}, found {}", name, maximum, value), name);
}

// Hosts of the Slurm allocation that this process runs in; 1 outside of one.
int HostsOfBatchJob() {
  const char* nodes = std::getenv("SLURM_JOB_NUM_NODES");
  return std::getenv("SLURM_JOB_ID") != nullptr && nodes != nullptr ? std::clamp(std::atoi(nodes), 1, comm::kHostsMax) : 1;
}

Status ResolveHosts(const EngineOptions& options, Machine& machine) {
  machine.control_address = options.control_address;
  machine.remote_program = options.remote_program;
  if (options.hosts.empty()) {
    if (machine.transport == "mpi") machine.batch_hosts = HostsOfBatchJob();
    return OkStatus();
  }
  if (machine.transport == "shm") return InvalidArgument("--transport shm is for ranks of this host; leave it out with --hosts", "transport");
  machine.transport = "mpi";
  SKEIN_ASSIGN_OR_RETURN(machine.hosts, supervisor::ParseHosts(options.hosts, machine.mesh));
  return OkStatus();
}

// "2,1": a number for each rank.
Status ResolveSpeeds(const EngineOptions& options, Machine& machine) {
  const auto wrong = [&](std::string_view found) {
    return InvalidArgument(fmt::format("rank-speeds is expected to be a number from {} to {} for each of {} ranks with commas between them, found {}", kSpeedMin,
                                       kSpeedMax, machine.mesh.product(), found),
                           "rank-speeds");
  };
  if (options.rank_speeds.empty()) return OkStatus();
  constexpr std::size_t kShown = 80;
  std::string_view rest = options.rank_speeds;
  while (true) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    double speed = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + comma, speed);
    if (error != std::errc() || end != rest.data() + comma || !(speed >= kSpeedMin && speed <= kSpeedMax)) {
      return wrong(fmt::format("'{}'", rest.substr(0, std::min(comma, kShown))));
    }
    machine.rank_speeds.push_back(speed);
    if (static_cast<int>(machine.rank_speeds.size()) > machine.mesh.product() || comma == rest.size()) break;
    rest.remove_prefix(comma + 1);
  }
  if (static_cast<int>(machine.rank_speeds.size()) == machine.mesh.product()) return OkStatus();
  return wrong(fmt::format("'{}'", options.rank_speeds.substr(0, kShown)));
}

Status ResolveRanks(const EngineOptions& options, Machine& machine) {
  if (options.tensor < 1 || options.tensor > kAxisMax) {
    return InvalidArgument(fmt::format("tensor is a number of ranks from 1 to {}, found {}", kAxisMax, options.tensor), "tensor");
  }
  if (options.pipe < 1 || options.pipe > kAxisMax) {
    return InvalidArgument(fmt::format("pipe is a number of stages from 1 to {}, found {}", kAxisMax, options.pipe), "pipe");
  }
  machine.mesh = {.data = 1, .pipe = options.pipe, .seq = 1, .tensor = options.tensor};
  SKEIN_RETURN_IF_ERROR(ResolveSpeeds(options, machine));
  machine.transport = options.transport;
  if (options.transport != "threads" && options.transport != "shm" && options.transport != "mpi") {
    return InvalidArgument(fmt::format("there is no transport {}; take threads, shm or mpi", options.transport), "transport");
  }
  SKEIN_RETURN_IF_ERROR(ResolveHosts(options, machine));
  if (options.deterministic != "off" && options.deterministic != "layout") {
    return InvalidArgument(fmt::format("there is no deterministic mode {}; take layout or off", options.deterministic), "deterministic");
  }
  machine.by_slice = options.deterministic == "layout";
  if (options.overlap != "auto") {
    if (options.overlap != "on" && options.overlap != "off") return InvalidArgument(fmt::format("overlap is auto, on or off, found {}", options.overlap), "overlap");
    machine.overlap = options.overlap == "on";
  }
  machine.choose_wire = options.wire == "auto" && !machine.by_slice && machine.transport == "mpi";
  if (options.wire == "auto") return OkStatus();
  if (const auto type = comm::WireTypeFromName(options.wire)) {
    machine.wire = {*type, *type};
    return OkStatus();
  }
  return InvalidArgument(fmt::format("there is no wire type {}; take fp32, bf16, int8 or auto", options.wire), "wire");
}

}  // namespace

Result<Machine> ResolveMachine(const EngineOptions& options) {
  Machine machine;
  SKEIN_RETURN_IF_ERROR(CheckRange(options.threads, kThreadsMax, "threads"));
  SKEIN_RETURN_IF_ERROR(CheckRange(options.step_tokens, kStepTokensMax, "max-num-batched-tokens"));
  SKEIN_RETURN_IF_ERROR(CheckRange(options.sequences, kSequencesMax, "sequences"));
  if (options.context < 0) return InvalidArgument("context is a number of tokens, found less than none", "context");
  machine.threads = options.threads > 0 ? options.threads : kernels::AvailableCores();
  machine.packed_cache = options.packed_cache;
  machine.phases = options.phases;
  machine.context = options.context;
  machine.fixed_step = options.step_tokens > 0;
  if (machine.fixed_step) machine.step_tokens = options.step_tokens;
  if (options.sequences > 0) machine.sequences = options.sequences;
  machine.kv_tokens = options.kv_tokens;
  if (options.arithmetic != "auto") {
    machine.arithmetic = kernels::ArithmeticFromName(options.arithmetic);
    if (!machine.arithmetic) {
      return InvalidArgument(fmt::format("there is no arithmetic {}; skein doctor lists them", options.arithmetic),
                             "arithmetic");
    }
  }
  if (options.kernels != "auto") {
    machine.path = kernels::KernelPathFromName(options.kernels);
    if (!machine.path) {
      return InvalidArgument(fmt::format("there are no kernels {}; skein doctor lists them", options.kernels), "kernels");
    }
    const std::vector<kernels::KernelPath> available = kernels::AvailablePaths();
    if (std::find(available.begin(), available.end(), *machine.path) == available.end()) {
      return MissingError(fmt::format("this processor cannot run the kernels {}; take --kernels {} or auto",
                                      options.kernels, NameOf(available.front())),
                          "kernels");
    }
  }
  SKEIN_RETURN_IF_ERROR(ResolveRanks(options, machine));
  if (options.kv_dtype != "auto") {
    machine.kv_type = kernels::KvTypeFromName(options.kv_dtype);
    if (!machine.kv_type) {
      return InvalidArgument(fmt::format("there is no KV type {}; take bf16, int8, fp8 or auto", options.kv_dtype), "kv-dtype");
    }
  }
  return machine;
}

std::vector<int> HostOfRanks(const Machine& machine, const comm::Mesh& mesh) {
  if (!machine.hosts.empty()) return supervisor::HostOfRanks(machine.hosts);
  return comm::SpreadOverHosts(mesh.ranks(), std::min(machine.batch_hosts, mesh.ranks()));
}

engine::EngineOptions EngineOptionsOf(const Machine& machine, const std::string& model, const std::string& arithmetic,
                                      const std::string& kv_type) {
  engine::EngineOptions options;
  options.sequences = machine.sequences;
  options.policy = machine.policy;
  if (machine.requests > 0) {
    options.requests = static_cast<std::size_t>(machine.requests);
    options.inbox_requests = options.requests;
  }
  if (machine.fixed_step) options.step_target_ns = 0;
  options.prefix_cache = machine.prefix_cache;
  std::random_device random;
  const auto word = [&random] { return std::uint64_t{random()} << 32 | random(); };
  options.prefix_secret = {word(), word()};
  options.prefix_fingerprint = fmt::format("{}|{}|{}", model, arithmetic, kv_type);
  return options;
}

Result<model::MemoryAnswer> MemoryFor(const formats::ModelFile& file, const Machine& machine, std::uint64_t tokens) {
  SKEIN_ASSIGN_OR_RETURN(const comm::Mesh mesh, comm::Mesh::Create(machine.mesh));
  model::MemoryQuestion question;
  question.options.arithmetic = machine.arithmetic;
  question.options.path = machine.path;
  question.kv_type = machine.kv_type;
  question.frames = static_cast<std::uint32_t>((tokens + kernels::kFrameTokens - 1) / kernels::kFrameTokens);
  question.threads = ThreadsOf(machine, mesh);
  question.step_tokens = machine.step_tokens;
  question.step_outputs = machine.step_outputs;
  const std::vector<int> hosts = HostOfRanks(machine, mesh);
  model::MemoryAnswer here, most;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const bool begins_host = rank == 0 || hosts[static_cast<std::size_t>(rank)] != hosts[static_cast<std::size_t>(rank) - 1];
    if (begins_host) here = {};
    question.options.share = ShareOf(file.config(), machine, mesh, {rank});
    SKEIN_ASSIGN_OR_RETURN(model::MemoryAnswer one, model::EstimateMemory(file, question));
    one.need.weights_bytes += here.need.weights_bytes;
    one.need.kv_bytes_per_token += here.need.kv_bytes_per_token;
    one.need.kv_bytes += here.need.kv_bytes;
    one.need.scratch_bytes += here.need.scratch_bytes;
    one.frame_bytes += here.frame_bytes;
    here = one;
    if (rank == 0 || here.need.total() > most.need.total()) most = here;
  }
  return most;
}

}  // namespace skein::api
