// SPDX-License-Identifier: Apache-2.0
#include "supervisor/simulated_rank.h"

#include <memory>
#include <utility>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/paced_executor.h"
#include "engine/simulated_executor.h"

namespace skein::supervisor {
namespace {

constexpr std::int32_t kBlockTokens = 16;

const SteadyClock& ProcessClock() {
  static const SteadyClock clock;
  return clock;
}

}  // namespace

Result<RankWork> SimulatedRank(RankContext& context, const scheduler::StepCost& cost) {
  RankWork work;
  const RankSetup& setup = context.setup();
  if (setup.rank != 0) {
    work.run = [&context] {
      context.WaitForStop();
      return OkStatus();
    };
    return work;
  }
  work.facts.context = setup.context;
  work.facts.kv_tokens = setup.kv_tokens;
  work.facts.kernels = "simulated";
  work.facts.limits = {.vocabulary = setup.vocabulary,
                       .context = setup.context,
                       .blocks = static_cast<std::uint32_t>(setup.kv_tokens / kBlockTokens),
                       .block_tokens = kBlockTokens,
                       .step_tokens = setup.step_tokens,
                       .step_outputs = setup.step_outputs};
  engine::EngineOptions options{.sequences = setup.sequences, .policy = setup.policy, .prefix_cache = setup.prefix_cache,
                                .prefix_secret = {.low = setup.prefix_secret[0], .high = setup.prefix_secret[1]}};
  if (setup.requests > 0) options.inbox_requests = options.requests = static_cast<std::size_t>(setup.requests);
  auto simulated = std::make_unique<engine::SimulatedExecutor>(work.facts.limits, cost);
  SKEIN_ASSIGN_OR_RETURN(std::unique_ptr<engine::Engine> engine,
                         engine::Engine::Create(std::make_unique<engine::PacedExecutor>(std::move(simulated)), options, ProcessClock()));
  work.client = std::move(engine);
  return work;
}

}  // namespace skein::supervisor
