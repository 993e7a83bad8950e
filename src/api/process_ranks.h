// SPDX-License-Identifier: Apache-2.0
//
// ProcessRanks: a model on ranks that are processes (transports `shm` and `mpi`), seen from both sides. The supervisor's side makes
// their setup of a Machine; a rank's side is the body that loads a share and computes.
#pragma once

#include <memory>
#include <string>

#include "api/machine.h"
#include "base/status.h"
#include "skein/options.h"
#include "supervisor/rank_process.h"
#include "supervisor/supervisor.h"

namespace skein::api {

// Starts the ranks of `machine` for the model at `path` and returns when they are loaded. `kv_tokens` and `context` have been chosen. Errors: as
// Engine::Load, and kMissing for what is not installed.
Result<std::unique_ptr<supervisor::Supervisor>> StartRanks(const std::string& path, const formats::ModelFile& file, const Machine& machine,
                                                           std::uint64_t kv_tokens, int context, const LoadProgress& progress);

// The body of a rank that computes.
Result<supervisor::RankWork> ComputingRank(supervisor::RankContext& context);

}  // namespace skein::api
