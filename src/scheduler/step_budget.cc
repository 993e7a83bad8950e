// SPDX-License-Identifier: Apache-2.0
#include "scheduler/step_budget.h"

#include <algorithm>

namespace skein::scheduler {
namespace {

constexpr double kAnswerShare = 4;
constexpr std::int64_t kChunkTokens = 16;   // a block, and a tile of the matrix units
constexpr double kLeastPart = 128;          // tokens, when a cost that was learned would say more
constexpr std::int64_t kLargeChunk = 256, kLargeChunkTokens = 64;

}  // namespace

std::int64_t PromptBudget(const StepCost& cost, const StepShape& answers, std::int64_t position, std::int64_t tokens,
                          std::int64_t target_ns) {
  if (target_ns == 0 || answers.rows == 0) return tokens;
  const double target = std::max(kAnswerShare * cost.Predict(answers), static_cast<double>(target_ns));
  std::int64_t low = 0, high = tokens / kChunkTokens;  // the most chunks that fit lie in [low, high]
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (cost.Predict(WithChunk(answers, position, middle * kChunkTokens)) <= target) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  std::int64_t chunk = std::max<std::int64_t>(low, 1) * kChunkTokens;
  if (chunk >= kLargeChunk) chunk = chunk / kLargeChunkTokens * kLargeChunkTokens;
  return std::min(tokens, chunk);
}

std::int64_t PromptPart(const StepCost& cost, std::int64_t part) {
  const double least = std::min(cost.weights_ns / cost.token_ns, kLeastPart);
  const std::int64_t tokens = std::max(part, static_cast<std::int64_t>(least));
  return (tokens + kChunkTokens - 1) / kChunkTokens * kChunkTokens;
}

}  // namespace skein::scheduler
