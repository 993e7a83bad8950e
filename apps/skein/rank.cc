// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

#include <fmt/format.h>

#include "api/process_ranks.h"
#include "supervisor/rank_process.h"
#include "supervisor/simulated_rank.h"

namespace skein::app {
namespace {

// Some thousand tokens a second, as `skein serve --simulated` has without ranks.
constexpr scheduler::StepCost kSimulatedCost{.weights_ns = 3e6, .token_ns = 20e3, .output_ns = 20e3, .key_ns = 20, .pair_ns = 5};

Result<supervisor::RankWork> Body(supervisor::RankContext& context) {
  const std::string& body = context.setup().body;
  if (body.empty()) return api::ComputingRank(context);
  if (body == supervisor::kSimulatedBody) return supervisor::SimulatedRank(context, kSimulatedCost);
  return InternalError(fmt::format("a rank does not know how to do '{}'", body));
}

}  // namespace

void RunRankProcess() { supervisor::RunRank(Body); }

}  // namespace skein::app
