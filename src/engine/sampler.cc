// SPDX-License-Identifier: Apache-2.0
//
// From logits to logits that may be drawn from: mask, bias, penalties; and log-probabilities. The drawing itself is in
// sampler_draw.cc.
#include "engine/sampler.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/check.h"

namespace skein::engine {
namespace {

using scheduler::SamplingParameters;
using scheduler::ScoredToken;

constexpr float kForbidden = -HUGE_VALF;

float Clamp(float value) {
  if (std::isnan(value)) return -FLT_MAX;
  return std::clamp(value, -FLT_MAX, FLT_MAX);
}

bool IsAllowed(std::span<const std::uint64_t> allowed, TokenId token) {
  const auto word = static_cast<std::size_t>(token) / 64;
  return word < allowed.size() && ((allowed[word] >> (token % 64)) & 1) != 0;
}

}  // namespace

SamplerState::SamplerState(const scheduler::SequenceStart& start)
    : penalised_(start.sampling.repetition_penalty != 1.0f || start.sampling.frequency_penalty != 0.0f ||
                 start.sampling.presence_penalty != 0.0f),
      parameters_(start.sampling),
      choice_(start.choice),
      prompt_tokens_(start.prompt_tokens),
      min_tokens_(start.min_tokens),
      stop_tokens_(start.stop_tokens) {
  if (!penalised_) return;
  for (const TokenId token : start.prompt) seen_.try_emplace(token);
  for (const TokenId token : start.generated) Accept(token);
}

void SamplerState::Accept(TokenId token) {
  if (penalised_) ++seen_[token].generated;
}

Sampler::Sampler(kernels::KernelPath path, std::int32_t vocabulary)
    : rows_(&kernels::SelectRows(path)), kernels_(&kernels::SelectLogits(path)), vocabulary_(vocabulary) {
  SKEIN_CHECK(vocabulary > 0);
}

ScoredToken Sampler::Sample(std::span<const float> logits, const SamplerState& state, const SampleWish& wish) {
  SKEIN_CHECK(logits.size() == static_cast<std::size_t>(vocabulary_));
  ScoredToken scored;
  scored.token = Choose(logits, state, wish);
  if (wish.logprob || wish.top > 0) AddLogprobs(logits, wish.top, scored);
  return scored;
}

ScoredToken Sampler::Score(std::span<const float> logits, TokenId target, std::int32_t top) {
  SKEIN_CHECK(logits.size() == static_cast<std::size_t>(vocabulary_));
  ScoredToken scored;
  scored.token = std::clamp(target, 0, vocabulary_ - 1);  // a plan may come from another process
  AddLogprobs(logits, top, scored);
  return scored;
}

TokenId Sampler::Choose(std::span<const float> logits, const SamplerState& state, const SampleWish& wish) {
  const SamplingParameters& parameters = state.parameters_;
  const bool greedy = parameters.temperature <= 0.0f;
  const bool adjusts = Adjusts(state, wish);
  if (greedy && !adjusts) {
    const int token = rows_->argmax(logits.data(), vocabulary_);
    return logits[static_cast<std::size_t>(token)] > -FLT_MAX ? token : 0;
  }
  FiniteLogits finite = Finite(logits);
  if (adjusts) {
    adjusted_.assign(finite.values.begin(), finite.values.end());
    Adjust(state, wish);
    finite = {adjusted_, rows_->max(adjusted_.data(), vocabulary_)};
  }
  if (finite.largest == kForbidden) {
    for (TokenId token = 0; token < vocabulary_; ++token) {
      if (IsAllowed(wish.allowed, token)) return token;
    }
    return 0;
  }
  if (greedy) return rows_->argmax(finite.values.data(), vocabulary_);
  return Draw(finite, parameters,
              {.seed = parameters.seed,
               .choice = static_cast<std::uint32_t>(state.choice_),
               .position = static_cast<std::uint32_t>(wish.position)});
}

// The logits themselves, or a copy in which every value is finite.
Sampler::FiniteLogits Sampler::Finite(std::span<const float> logits) {
  const kernels::LargestLogit largest = kernels_->largest(logits.data(), vocabulary_);
  if (largest.finite) return {logits, largest.value};
  finite_.resize(logits.size());
  std::transform(logits.begin(), logits.end(), finite_.begin(), Clamp);
  return {finite_, rows_->max(finite_.data(), vocabulary_)};
}

bool Sampler::Adjusts(const SamplerState& state, const SampleWish& wish) const {
  return !wish.allowed.empty() || !state.parameters_.bias.empty() || state.penalised_ ||
         (!state.stop_tokens_.empty() && wish.position - state.prompt_tokens_ < state.min_tokens_);
}

void Sampler::Adjust(const SamplerState& state, const SampleWish& wish) {
  const SamplingParameters& parameters = state.parameters_;
  const auto at = [this](TokenId token) -> float& { return adjusted_[static_cast<std::size_t>(token)]; };
  const auto is_known = [this](TokenId token) { return token >= 0 && token < vocabulary_; };
  if (!wish.allowed.empty()) {
    for (TokenId token = 0; token < vocabulary_; ++token) {
      if (!IsAllowed(wish.allowed, token)) at(token) = kForbidden;
    }
  }
  if (wish.position - state.prompt_tokens_ < state.min_tokens_) {
    for (const TokenId token : state.stop_tokens_) {
      if (is_known(token)) at(token) = kForbidden;
    }
  }
  for (const auto& [token, value] : parameters.bias) {
    if (is_known(token) && at(token) != kForbidden) at(token) = Clamp(at(token) + value);
  }
  if (!state.penalised_) return;
  for (const auto& [token, seen] : state.seen_) {  // each token by itself, so the order does not matter
    if (!is_known(token) || at(token) == kForbidden) continue;
    float logit = at(token);
    logit = logit > 0.0f ? logit / parameters.repetition_penalty : logit * parameters.repetition_penalty;
    if (seen.generated > 0) {
      logit -= parameters.frequency_penalty * static_cast<float>(seen.generated);
      logit -= parameters.presence_penalty;
    }
    at(token) = Clamp(logit);
  }
}

// log p = (logit - max) - log(sum of exp(logit - max)), of the raw logits.
void Sampler::AddLogprobs(std::span<const float> logits, std::int32_t top, ScoredToken& scored) {
  const auto [finite, largest] = Finite(logits);
  const float log_sum = rows_->log(rows_->sum_exp(finite.data(), largest, vocabulary_));
  const auto logprob = [shift = largest, log_sum](float logit) { return std::max((logit - shift) - log_sum, -FLT_MAX); };
  scored.logprob = logprob(finite[static_cast<std::size_t>(scored.token)]);
  if (top <= 0) return;
  KeepBest(finite, static_cast<std::size_t>(top));
  std::sort(candidates_.begin(), candidates_.end(), kernels::IsBetter);
  scored.top.reserve(candidates_.size());
  for (const kernels::Candidate& candidate : candidates_) scored.top.push_back({candidate.token, logprob(candidate.z)});
}

}  // namespace skein::engine
