// SPDX-License-Identifier: Apache-2.0
//
// SamplingParameters: how the next token of a sequence is chosen. The order of what applies is fixed: mask, bias,
// penalties, temperature, top-k, top-p, min-p. Random numbers come from a counter: the same (seed, choice, position)
// gives the same token, so a continuation is reproducible from its tokens alone.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace skein::scheduler {

struct SamplingParameters {
  float temperature = 1.0f;          // 0: greedy
  std::int32_t top_k = 0;            // 0: off
  float top_p = 1.0f;                // 1: off
  float min_p = 0.0f;                // 0: off
  float repetition_penalty = 1.0f;   // > 1 divides positive logits of tokens seen (Keskar et al. 2019); prompt counts
  float frequency_penalty = 0.0f;    // per occurrence among generated tokens
  float presence_penalty = 0.0f;     // once for any occurrence among generated tokens
  std::uint64_t seed = 0;
  std::vector<std::pair<TokenId, float>> bias = {};  // added to logits
  friend bool operator==(const SamplingParameters&, const SamplingParameters&) = default;
};

}  // namespace skein::scheduler
