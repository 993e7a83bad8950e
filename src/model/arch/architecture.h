// SPDX-License-Identifier: Apache-2.0
//
// Architecture: what has to be known to run one family of models. A row of the table in registry.cc; plain functions.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "formats/model_file.h"
#include "model/decoder.h"
#include "model/share.h"
#include "model/weight_plan.h"
#include "model/weights.h"

namespace skein::model {

struct Architecture {
  std::string_view name;  // ModelConfig::architecture
  // The plan of a share's weights, with places in `weights` (which must stay where it is until the plan is carried out).
  // Formats and arithmetics are not chosen yet.
  Result<WeightPlan> (*plan_weights)(const formats::ModelFile& file, const Share& share, ModelWeights& weights) = nullptr;
  // Bytes that make_decoder takes.
  std::uint64_t (*scratch_bytes)(const formats::ModelConfig& config, const Share& share, const Decoder::Limits& limits, int threads,
                                 std::uint32_t frames) = nullptr;
  Result<std::unique_ptr<Decoder>> (*make_decoder)(const Model& model, KvStore& kv, kernels::ThreadPool& pool,
                                                   Decoder::Limits limits, RankLinks links, PhaseClock* phases) = nullptr;
};

// nullptr when there is none of that name.
const Architecture* FindArchitecture(std::string_view name);

// The names, for messages: "llama".
std::string_view KnownArchitectures();

// The rows of the table, one file each.
const Architecture& LlamaArchitecture();

}  // namespace skein::model
