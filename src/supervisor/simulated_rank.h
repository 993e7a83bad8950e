// SPDX-License-Identifier: Apache-2.0
//
// The body of ranks that compute nothing: the first one has an engine over a simulated executor, the others wait. For tests of what
// stands around ranks, and for `skein serve --simulated` on a mesh.
#pragma once

#include "base/status.h"
#include "scheduler/step_cost.h"
#include "supervisor/rank_process.h"

namespace skein::supervisor {

inline constexpr const char* kSimulatedBody = "simulated";

// Of setup(): vocabulary, context, kv_tokens, step_tokens, step_outputs, sequences, requests, policy, prefix_cache. Steps take what `cost`
// predicts.
Result<RankWork> SimulatedRank(RankContext& context, const scheduler::StepCost& cost);

}  // namespace skein::supervisor
