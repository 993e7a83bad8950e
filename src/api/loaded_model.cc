// SPDX-License-Identifier: Apache-2.0
#include "api/loaded_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "engine/mesh_executor.h"
#include "model/memory.h"

namespace skein::api {
namespace {

// A context that memory dictates is at least this, or the model is refused.
constexpr std::uint64_t kContextMin = 256;
// Memory left to everything that is not counted: the program itself, and a stack for every thread.
constexpr std::uint64_t kReserveBytes = 16u << 20;
constexpr std::uint64_t kReserveThreadBytes = 10u << 20;

std::uint64_t RoundUpToFrames(std::uint64_t tokens) {
  return (tokens + kernels::kFrameTokens - 1) / kernels::kFrameTokens * kernels::kFrameTokens;
}

}  // namespace

LoadedModel::~LoadedModel() {
  if (engine_) engine_->Shutdown();
}

Result<std::unique_ptr<LoadedModel>> LoadedModel::Load(const std::string& path, const Machine& machine,
                                                       const LoadProgress& progress) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<LoadedModel> loaded(new LoadedModel);
  loaded->machine_ = machine;
  SKEIN_ASSIGN_OR_RETURN(loaded->file_, formats::ModelFile::Open(path));
  SKEIN_RETURN_IF_ERROR(loaded->ChooseContext());
  SKEIN_ASSIGN_OR_RETURN(loaded->tokenizer_, text::Tokenizer::Create(loaded->file_->tokenizer()));
  SKEIN_RETURN_IF_ERROR(loaded->LoadWeights(progress));
  const auto taken = std::chrono::steady_clock::now() - begin;
  loaded->info_.load_ms = std::chrono::duration<double, std::milli>(taken).count();
  return loaded;
}

// The context that was asked for, or the model's, or as much of that as memory holds.
Status LoadedModel::ChooseContext() {
  const formats::ModelConfig& config = file_->config();
  const std::uint64_t model_context = static_cast<std::uint64_t>(std::max(config.context, 1));
  const std::uint64_t asked = machine_.context > 0 ? static_cast<std::uint64_t>(machine_.context) : model_context;
  std::uint64_t kv_tokens = RoundUpToFrames(std::max(machine_.kv_tokens, machine_.kv_tokens > 0 ? 1 : asked));
  SKEIN_ASSIGN_OR_RETURN(model::MemoryAnswer answer, model::EstimateMemory(*file_, MemoryQuestionOf(machine_, kv_tokens)));
  const model::MemoryLimit limit = model::AvailableMemory();
  const std::uint64_t reserve = kReserveBytes + kReserveThreadBytes * static_cast<std::uint64_t>(machine_.threads + 1);
  const std::uint64_t allowed = limit.bytes > reserve ? limit.bytes - reserve : 0;
  const bool may_shrink = machine_.context == 0 && machine_.kv_tokens == 0;
  if (answer.need.total() > allowed && may_shrink && answer.need.kv_bytes_per_token > 0) {
    const std::uint64_t fixed = answer.need.total() - answer.need.kv_bytes;
    const std::uint64_t left = allowed > fixed ? allowed - fixed : 0;
    const std::uint64_t frames = left / answer.need.kv_bytes_per_token / kernels::kFrameTokens;
    if (frames * kernels::kFrameTokens >= std::min(kContextMin, kv_tokens)) {
      kv_tokens = frames * kernels::kFrameTokens;
      SKEIN_ASSIGN_OR_RETURN(answer, model::EstimateMemory(*file_, MemoryQuestionOf(machine_, kv_tokens)));
    }
  }
  SKEIN_RETURN_IF_ERROR(model::CheckMemory(answer.need, {allowed, limit.reason}));
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
  info_.has_chat_template = !file_->chat_template().empty();
  machine_.kv_type = answer.kv_type;
  return OkStatus();
}

Status LoadedModel::LoadWeights(const LoadProgress& progress) {
  pool_ = std::make_unique<kernels::ThreadPool>(machine_.threads);
  const std::uint64_t frames = kv_tokens_ / kernels::kFrameTokens;
  SKEIN_ASSIGN_OR_RETURN(const model::MemoryAnswer answer, model::EstimateMemory(*file_, MemoryQuestionOf(machine_, kv_tokens_)));
  model::LoadOptions options;
  options.arithmetic = machine_.arithmetic;
  options.path = machine_.path;
  options.progress = progress;
  options.other_bytes = answer.need.kv_bytes;
  SKEIN_ASSIGN_OR_RETURN(model_, model::Model::Load(*file_, options, *pool_));
  info_.arithmetic = NameOf(model_->arithmetic());
  info_.kernels = NameOf(model_->path());
  const engine::MeshExecutorOptions executor_options{.kv_type = *machine_.kv_type,
                                                     .frames = static_cast<std::uint32_t>(frames),
                                                     .context = info_.context,
                                                     .step_tokens = machine_.step_tokens,
                                                     .step_outputs = machine_.step_outputs};
  SKEIN_ASSIGN_OR_RETURN(std::unique_ptr<engine::MeshExecutor> executor,
                         engine::MeshExecutor::Create(*model_, *pool_, executor_options, clock_));
  engine::EngineOptions engine_options;
  engine_options.sequences = machine_.sequences;
  SKEIN_ASSIGN_OR_RETURN(engine_, engine::Engine::Create(std::move(executor), engine_options, clock_));
  return OkStatus();
}

}  // namespace skein::api
