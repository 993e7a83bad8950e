// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/arch/architecture.h"
#include "model/kv_store.h"

namespace skein::model {
namespace {

Result<const Architecture*> ArchitectureOf(const formats::ModelConfig& config) {
  if (const Architecture* found = FindArchitecture(config.architecture)) return found;
  return InvalidFile(fmt::format("architecture: expected one of {}, the file says \"{}\"", KnownArchitectures(), config.architecture),
                     "architecture");
}

Result<kernels::KernelPath> PathOf(const LoadOptions& options) {
  const std::vector<kernels::KernelPath> paths = kernels::AvailablePaths();
  if (!options.path) return paths.front();
  if (std::find(paths.begin(), paths.end(), *options.path) != paths.end()) return *options.path;
  return MissingError(fmt::format("kernels {}: this processor cannot run them; its best are {} (skein doctor lists all)",
                                  kernels::NameOf(*options.path), kernels::NameOf(paths.front())),
                      "kernels");
}

Share ShareIn(const formats::ModelFile& file, const LoadOptions& options) {
  return options.share ? *options.share : WholeShare(file.config());
}

Result<WeightPlan> PlanOf(const formats::ModelFile& file, const LoadOptions& options, ModelWeights& weights) {
  SKEIN_ASSIGN_OR_RETURN(const Architecture* architecture, ArchitectureOf(file.config()));
  SKEIN_ASSIGN_OR_RETURN(WeightPlan plan, architecture->plan_weights(file, ShareIn(file, options), weights));
  SKEIN_RETURN_IF_ERROR(ChooseArithmetic(options.arithmetic, kernels::AvailablePaths().front(), plan));
  return plan;
}

}  // namespace

Result<std::unique_ptr<Model>> Model::Load(const formats::ModelFile& file, const LoadOptions& options,
                                           kernels::ThreadPool& pool) {
  auto model = std::make_unique<Model>();
  model->config_ = file.config();
  model->share_ = ShareIn(file, options);
  model->local_ = LocalConfig(model->config_, model->share_);
  SKEIN_ASSIGN_OR_RETURN(model->architecture_, ArchitectureOf(file.config()));
  SKEIN_ASSIGN_OR_RETURN(model->path_, PathOf(options));
  SKEIN_ASSIGN_OR_RETURN(const WeightPlan plan, PlanOf(file, options, model->weights_));
  model->arithmetic_ = plan.arithmetic;
  model->arithmetic_asked_ = options.arithmetic.has_value();
  model->packed_bytes_ = plan.PackedBytes();

  const MemoryNeed need{.weights_bytes = model->packed_bytes_,
                        .kv_bytes = options.other_bytes,
                        .scratch_bytes = PackerScratchBytes(plan, pool.threads())};
  const MemoryLimit limit =
      options.memory_limit > 0 ? MemoryLimit{options.memory_limit, "the limit that was set"} : AvailableMemory();
  SKEIN_RETURN_IF_ERROR(CheckMemory(need, limit));
  SKEIN_ASSIGN_OR_RETURN(model->cache_use_, PackWeights(file, plan, {model->path_, options.packed_cache, options.progress}, pool,
                                                        model->weights_.memory));
  return model;
}

Result<MemoryAnswer> EstimateMemory(const formats::ModelFile& file, const MemoryQuestion& question) {
  ModelWeights weights;
  SKEIN_ASSIGN_OR_RETURN(const Architecture* architecture, ArchitectureOf(file.config()));
  SKEIN_ASSIGN_OR_RETURN(const WeightPlan plan, PlanOf(file, question.options, weights));
  MemoryAnswer answer;
  answer.arithmetic = plan.arithmetic;
  answer.kv_type = question.kv_type.value_or(DefaultKvType(plan.arithmetic));
  const Share share = ShareIn(file, question.options);
  answer.frame_bytes = KvStore::FrameBytes(LocalConfig(file.config(), share), answer.kv_type);
  answer.need.weights_bytes = plan.PackedBytes();
  answer.need.kv_bytes_per_token = answer.frame_bytes / kernels::kFrameTokens;
  answer.need.kv_bytes = answer.frame_bytes * question.frames;
  const Decoder::Limits limits{question.step_tokens, question.step_outputs};
  answer.need.scratch_bytes =
      std::max(PackerScratchBytes(plan, question.threads),
               architecture->scratch_bytes(file.config(), share, limits, question.threads, question.frames));
  return answer;
}

std::optional<kernels::Arithmetic> Model::AttentionArithmetic(kernels::KvType type) const {
  if (kernels::HasKvType(arithmetic_, type)) return arithmetic_;
  if (arithmetic_ == kernels::Arithmetic::kExact && !arithmetic_asked_) return kernels::Arithmetic::kBf16P;
  return std::nullopt;
}

}  // namespace skein::model
