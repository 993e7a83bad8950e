// SPDX-License-Identifier: Apache-2.0
#include "api/loaded_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "api/process_ranks.h"
#include "engine/paced_executor.h"
#include "engine/simulated_executor.h"
#include "model/memory.h"

namespace skein::api {
namespace {

// A context that memory dictates is at least this, or the model is refused.
constexpr std::uint64_t kContextMin = 256;
// Memory left to everything that is not counted: the program itself, and a stack for every thread.
constexpr std::uint64_t kReserveBytes = 16u << 20;
constexpr std::uint64_t kReserveThreadBytes = 10u << 20;

// Of simulated steps: a machine that makes a thousand tokens in some 50 ms, so that what stands above the engine has to
// work. Nanoseconds.
constexpr scheduler::StepCost kSimulatedCost{.weights_ns = 3e6, .token_ns = 20e3, .output_ns = 20e3, .key_ns = 20, .pair_ns = 5};

std::uint64_t RoundUpToFrames(std::uint64_t tokens) {
  return (tokens + kernels::kFrameTokens - 1) / kernels::kFrameTokens * kernels::kFrameTokens;
}

}  // namespace

LoadedModel::~LoadedModel() {
  if (engine_) engine_->Shutdown();
  if (supervisor_) supervisor_->Shutdown();
}

Result<std::unique_ptr<LoadedModel>> LoadedModel::Load(const std::string& path, const Machine& machine,
                                                       const LoadProgress& progress) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<LoadedModel> loaded(new LoadedModel);
  loaded->machine_ = machine;
  SKEIN_ASSIGN_OR_RETURN(loaded->file_, formats::ModelFile::Open(path));
  SKEIN_RETURN_IF_ERROR(loaded->ChooseContext());
  SKEIN_ASSIGN_OR_RETURN(loaded->tokenizer_, text::Tokenizer::Create(loaded->file_->tokenizer()));
  SKEIN_RETURN_IF_ERROR(machine.simulated     ? loaded->Simulate()
                        : machine.processes() ? loaded->StartProcesses(progress)
                                              : loaded->LoadWeights(progress));
  const auto taken = std::chrono::steady_clock::now() - begin;
  loaded->info_.load_ms = std::chrono::duration<double, std::milli>(taken).count();
  return loaded;
}

// How many tokens the KV cache holds, where that is said in bytes or left to the memory that is free.
Status LoadedModel::ChooseKv(std::uint64_t context) {
  if (machine_.kv_tokens > 0 || (machine_.kv_bytes == 0 && machine_.kv_contexts == 0)) return OkStatus();
  const std::uint64_t one = RoundUpToFrames(context);
  SKEIN_ASSIGN_OR_RETURN(const model::MemoryAnswer answer, MemoryFor(*file_, machine_, one));
  const std::uint64_t token_bytes = std::max<std::uint64_t>(answer.need.kv_bytes_per_token, 1);
  const auto tokens_in = [&](std::uint64_t bytes) {
    return bytes / token_bytes / kernels::kFrameTokens * kernels::kFrameTokens;
  };
  if (machine_.kv_bytes > 0) {
    machine_.kv_tokens = tokens_in(machine_.kv_bytes);
    if (machine_.kv_tokens > 0) return OkStatus();
    return LimitExceeded(fmt::format("{} of KV memory hold no {} tokens of this model, which need {}; raise --kv-memory",
                                     model::ShownBytes(machine_.kv_bytes), kernels::kFrameTokens,
                                     model::ShownBytes(token_bytes * kernels::kFrameTokens)),
                         "kv-memory");
  }
  const std::uint64_t free_bytes = model::AvailableMemory().bytes;
  const std::uint64_t others = answer.need.total() - answer.need.kv_bytes;
  const std::uint64_t quarter = tokens_in(free_bytes > others ? (free_bytes - others) / 4 : 0);
  // Where not even one context fits a quarter, the usual way decides: one context, or what memory holds of it.
  if (quarter > one) machine_.kv_tokens = std::min(quarter, one * static_cast<std::uint64_t>(machine_.kv_contexts));
  return OkStatus();
}

// The context that was asked for, or the model's, or as much of that as memory holds.
Status LoadedModel::ChooseContext() {
  const formats::ModelConfig& config = file_->config();
  const std::uint64_t model_context = static_cast<std::uint64_t>(std::max(config.context, 1));
  const std::uint64_t asked = machine_.context > 0 ? static_cast<std::uint64_t>(machine_.context) : model_context;
  SKEIN_RETURN_IF_ERROR(ChooseKv(asked));
  std::uint64_t kv_tokens = RoundUpToFrames(std::max(machine_.kv_tokens, machine_.kv_tokens > 0 ? 1 : asked));
  SKEIN_ASSIGN_OR_RETURN(model::MemoryAnswer answer, MemoryFor(*file_, machine_, kv_tokens));
  const model::MemoryLimit limit = model::AvailableMemory();
  const std::uint64_t reserve = kReserveBytes + kReserveThreadBytes * static_cast<std::uint64_t>(machine_.threads + 1);
  const std::uint64_t allowed = limit.bytes > reserve ? limit.bytes - reserve : 0;
  // What other hosts have is not known here: their ranks say what does not fit.
  const bool known = !machine_.by_network();
  const bool may_shrink = known && machine_.context == 0 && machine_.kv_tokens == 0;
  if (answer.need.total() > allowed && may_shrink && answer.need.kv_bytes_per_token > 0) {
    const std::uint64_t fixed = answer.need.total() - answer.need.kv_bytes;
    const std::uint64_t left = allowed > fixed ? allowed - fixed : 0;
    const std::uint64_t frames = left / answer.need.kv_bytes_per_token / kernels::kFrameTokens;
    if (frames * kernels::kFrameTokens >= std::min(kContextMin, kv_tokens)) {
      kv_tokens = frames * kernels::kFrameTokens;
      SKEIN_ASSIGN_OR_RETURN(answer, MemoryFor(*file_, machine_, kv_tokens));
    }
  }
  if (known) SKEIN_RETURN_IF_ERROR(model::CheckMemory(answer.need, {allowed, limit.reason}));
  kv_tokens_ = kv_tokens;
  info_.context = static_cast<int>(std::min(asked, kv_tokens));
  info_.model_context = config.context;
  info_.name = config.name;
  info_.architecture = config.architecture;
  info_.parameters = config.parameters;
  info_.weight_format = config.weight_format;
  info_.arithmetic = NameOf(answer.arithmetic);
  info_.kv_dtype = NameOf(answer.kv_type);
  info_.vocabulary = config.vocabulary;
  info_.threads = machine_.threads;
  info_.pipe = machine_.mesh.pipe;
  info_.tensor = machine_.mesh.tensor;
  if (machine_.processes() || info_.pipe * info_.tensor > 1) {
    info_.transport = machine_.transport;
    info_.wire = machine_.by_slice ? "fp32" : NameOf(machine_.wire.inner);
  }
  info_.has_chat_template = !file_->chat_template().empty();
  machine_.kv_type = answer.kv_type;
  return OkStatus();
}

Status LoadedModel::LoadWeights(const LoadProgress& progress) {
  SKEIN_ASSIGN_OR_RETURN(mesh_, ThreadMesh::Load(*file_, machine_, kv_tokens_, info_.context, progress, clock_));
  const model::Model& model = mesh_->first().model();
  info_.arithmetic = NameOf(model.arithmetic());
  info_.kernels = NameOf(model.path());
  const model::CacheUse& cache = model.cache_use();
  info_.packed_cache = cache.Word();
  info_.packed_cache_trouble = cache.trouble;
  SKEIN_ASSIGN_OR_RETURN(std::vector<engine::RankStats> ranks, RanksOf(file_->config(), machine_));
  return RunEngine(mesh_->first().TakeExecutor({}), [ranks = std::move(ranks), counters = mesh_->Counters()] {
    std::vector<engine::RankStats> now = ranks;
    for (std::size_t rank = 0; rank < now.size(); ++rank) now[rank].load = counters[rank]->Read();
    return now;
  });
}

Status LoadedModel::StartProcesses(const LoadProgress& progress) {
  SKEIN_ASSIGN_OR_RETURN(supervisor_, StartRanks(file_->path(), *file_, machine_, kv_tokens_, info_.context, progress));
  const supervisor::RankFacts& facts = supervisor_->facts();
  info_.arithmetic = facts.arithmetic;
  info_.kernels = facts.kernels;
  if (!machine_.by_slice && !facts.wire.empty()) info_.wire = facts.wire;
  if (!facts.outer_wire.empty()) info_.outer_wire = machine_.by_slice ? "fp32" : facts.outer_wire;
  info_.packed_cache = facts.packed_cache;
  info_.packed_cache_trouble = facts.packed_cache_trouble;
  limits_ = facts.limits;
  client_ = &supervisor_->client();
  return OkStatus();
}

Status LoadedModel::RunEngine(std::unique_ptr<engine::Executor> executor, std::function<std::vector<engine::RankStats>()> ranks) {
  limits_ = executor->limits();
  engine::EngineOptions options = EngineOptionsOf(machine_, info_.name, info_.arithmetic, info_.kv_dtype);
  options.ranks = std::move(ranks);
  SKEIN_ASSIGN_OR_RETURN(engine_, engine::Engine::Create(std::move(executor), std::move(options), clock_));
  client_ = engine_.get();
  return OkStatus();
}

Status LoadedModel::Simulate() {
  info_.kernels = "simulated";
  const engine::ExecutorLimits limits{.vocabulary = info_.vocabulary,
                                      .context = info_.context,
                                      .blocks = static_cast<std::uint32_t>(kv_tokens_ / kernels::kBlockTokens),
                                      .block_tokens = kernels::kBlockTokens,
                                      .step_tokens = machine_.step_tokens,
                                      .step_outputs = machine_.step_outputs};
  auto simulated = std::make_unique<engine::SimulatedExecutor>(limits, kSimulatedCost);
  return RunEngine(std::make_unique<engine::PacedExecutor>(std::move(simulated)));
}

}  // namespace skein::api
