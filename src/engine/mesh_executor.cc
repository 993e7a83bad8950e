// SPDX-License-Identifier: Apache-2.0
#include "engine/mesh_executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/rows/rows.h"

namespace skein::engine {

using scheduler::Output;
using scheduler::PlanRow;
using scheduler::StepPlan;
using scheduler::StepResult;

Result<std::unique_ptr<MeshExecutor>> MeshExecutor::Create(const model::Model& model, kernels::ThreadPool& pool,
                                                           const MeshExecutorOptions& options, const Clock& clock) {
  const ExecutorLimits limits{.vocabulary = model.config().vocabulary,
                              .context = options.context,
                              .blocks = options.frames * kernels::kFrameBlocks,
                              .block_tokens = kernels::kBlockTokens,
                              .step_tokens = options.step_tokens,
                              .step_outputs = options.step_outputs,
                              .plans_in_flight = 1};
  std::unique_ptr<MeshExecutor> executor(new MeshExecutor(model, pool, limits, clock));
  SKEIN_ASSIGN_OR_RETURN(executor->kv_, model::KvStore::Create(model.config(), options.kv_type, options.frames));
  executor->kv_->Touch(pool);  // now, not in the middle of the first answers
  SKEIN_ASSIGN_OR_RETURN(executor->decoder_, model::Decoder::Create(model, *executor->kv_, pool,
                                                                    {options.step_tokens, options.step_outputs}));
  return executor;
}

MeshExecutor::MeshExecutor(const model::Model& model, kernels::ThreadPool& pool, const ExecutorLimits& limits,
                           const Clock& clock)
    : limits_(limits), pool_(pool), clock_(clock), inputs_(limits) {
  for (int i = 0; i < pool.threads(); ++i) samplers_.emplace_back(model.path(), limits.vocabulary);
  readings_.reserve(static_cast<std::size_t>(limits.step_outputs));
}

void MeshExecutor::Submit(const StepPlan& plan) {
  SKEIN_CHECK(results_.size() < static_cast<std::size_t>(limits_.plans_in_flight));
  StepResult& result = results_.emplace_back();
  result.step = plan.step;
  const std::int64_t begin = clock_.NowNs();
  result.error = inputs_.Build(plan, *kv_);
  if (result.error.empty()) Compute(plan, result);
  result.compute_ns = static_cast<std::uint64_t>(clock_.NowNs() - begin);
}

StepResult MeshExecutor::Wait() {
  SKEIN_CHECK(!results_.empty());
  StepResult result = std::move(results_.front());
  results_.pop_front();
  return result;
}

void MeshExecutor::Compute(const StepPlan& plan, StepResult& result) {
  const std::span<const float> logits = decoder_->Forward(inputs_.batch());
  ReadOutputs(plan, logits, result);
  std::vector<TokenId> sampled(plan.rows.size(), -1);
  for (const scheduler::RowResult& row : result.rows) {
    const PlanRow& planned = plan.rows[static_cast<std::size_t>(row.row)];
    if (planned.output != Output::kSample) continue;
    const TokenId token = row.scored.front().token;
    sampled[static_cast<std::size_t>(row.row)] = token;
    inputs_.StateOf(planned.sequence).Accept(token);
  }
  inputs_.Remember(plan.step, std::move(sampled));
}

void MeshExecutor::ReadOutputs(const StepPlan& plan, std::span<const float> logits, StepResult& result) {
  const auto vocabulary = static_cast<std::size_t>(limits_.vocabulary);
  masks_.assign(plan.rows.size(), {});
  for (const scheduler::GrammarMask& mask : plan.masks) masks_[static_cast<std::size_t>(mask.row)] = mask.allowed;
  const auto wants = [](const PlanRow& row) { return row.output != Output::kNone; };
  result.rows.reserve(static_cast<std::size_t>(std::count_if(plan.rows.begin(), plan.rows.end(), wants)));
  readings_.clear();
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const PlanRow& row = plan.rows[i];
    if (!wants(row)) continue;
    scheduler::RowResult& into = result.rows.emplace_back();
    into.row = static_cast<std::int32_t>(i);
    const std::int32_t first = inputs_.FirstOutput(i);
    if (row.output == Output::kPooled) {
      const std::span<const float> hidden = decoder_->Hidden(first);
      into.hidden.assign(hidden.begin(), hidden.end());
      continue;
    }
    if (row.output == Output::kLogits) {
      const float* begin = logits.data() + static_cast<std::size_t>(first) * vocabulary;
      into.logits.assign(begin, begin + row.tokens.size() * vocabulary);
      continue;
    }
    into.scored.resize(row.output == Output::kSample ? 1 : row.tokens.size());
    for (std::int32_t place = 0; place < static_cast<std::int32_t>(into.scored.size()); ++place) {
      readings_.push_back({into.row, first + place, place, &into});
    }
  }
  if (readings_.empty()) return;
  // Also a single one goes through the pool: its workers flush denormals, which the bits depend on.
  pool_.Run([&](kernels::Worker& worker) {
    Sampler& sampler = samplers_[static_cast<std::size_t>(worker.index())];
    for (;;) {
      const auto taken = worker.TakeFrom(0, static_cast<int>(readings_.size()), 1);
      if (taken.begin >= taken.end) return;
      Read(plan, readings_[static_cast<std::size_t>(taken.begin)], logits, sampler);
    }
  });
}

void MeshExecutor::Read(const StepPlan& plan, const Reading& reading, std::span<const float> logits, Sampler& sampler) {
  const auto vocabulary = static_cast<std::size_t>(limits_.vocabulary);
  const auto row_index = static_cast<std::size_t>(reading.plan_row);
  const PlanRow& row = plan.rows[row_index];
  const auto own = logits.subspan(static_cast<std::size_t>(reading.output) * vocabulary, vocabulary);
  const auto place = static_cast<std::size_t>(reading.place);
  if (row.output == Output::kScore) {
    reading.into->scored[place] = sampler.Score(own, row.targets[place], row.top);
    return;
  }
  reading.into->scored[place] = sampler.Sample(own, inputs_.StateOf(row.sequence),
                                               {.position = row.first_position + static_cast<std::int32_t>(row.tokens.size()),
                                                .top = row.top,
                                                .logprob = row.logprob,
                                                .allowed = masks_[row_index]});
}

}  // namespace skein::engine
