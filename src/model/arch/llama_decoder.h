// SPDX-License-Identifier: Apache-2.0
//
// The forward pass of the llama family. Used through Decoder::Create.
#pragma once

#include <memory>

#include "model/decoder.h"

namespace skein::model {

Result<std::unique_ptr<Decoder>> MakeLlamaDecoder(const Model& model, KvStore& kv, kernels::ThreadPool& pool,
                                                  Decoder::Limits limits, RankLinks links, PhaseClock* phases);
std::uint64_t LlamaScratchBytes(const formats::ModelConfig& config, const Share& share, const Decoder::Limits& limits, int threads,
                                std::uint32_t frames);

}  // namespace skein::model
