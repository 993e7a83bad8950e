// SPDX-License-Identifier: Apache-2.0
//
// From logits to logits that may be drawn from: mask, bias, penalties; and log-probabilities. The drawing itself is in
// sampler_draw.cc.
#include "engine/sampler.h"

#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>

#include "base/check.h"

namespace skein::engine {
namespace {

using scheduler::ScoredToken;

constexpr float kForbidden = -HUGE_VALF;

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

kernels::NoiseKey SamplerState::NoiseAt(std::int32_t position) const {
  return {.seed = parameters_.seed,
          .choice = static_cast<std::uint32_t>(choice_),
          .position = static_cast<std::uint32_t>(position)};
}

bool SamplerState::Adjusts(const SampleWish& wish) const {
  return !wish.allowed.empty() || !parameters_.bias.empty() || penalised_ ||
         (!stop_tokens_.empty() && wish.position - prompt_tokens_ < min_tokens_);
}

void SamplerState::Adjust(const SampleWish& wish, TokenId first, std::span<float> logits) const {
  const auto count = static_cast<TokenId>(logits.size());
  // The token's logit where it is here and not forbidden already.
  const auto find = [=](TokenId token) -> float* {
    if (token < first || token - first >= count) return nullptr;
    float* logit = &logits[static_cast<std::size_t>(token - first)];
    return *logit == kForbidden ? nullptr : logit;
  };
  if (!wish.allowed.empty()) {
    for (TokenId i = 0; i < count; ++i) {
      if (!IsAllowed(wish.allowed, first + i)) logits[static_cast<std::size_t>(i)] = kForbidden;
    }
  }
  if (wish.position - prompt_tokens_ < min_tokens_) {
    for (const TokenId token : stop_tokens_) {
      if (float* logit = find(token)) *logit = kForbidden;
    }
  }
  for (const auto& [token, value] : parameters_.bias) {
    if (float* logit = find(token)) *logit = FiniteOf(*logit + value);
  }
  for (const auto& [token, seen] : seen_) {  // each token by itself, so the order does not matter
    float* logit = find(token);
    if (logit == nullptr) continue;
    float value = *logit > 0.0f ? *logit / parameters_.repetition_penalty : *logit * parameters_.repetition_penalty;
    if (seen.generated > 0) {
      value -= parameters_.frequency_penalty * static_cast<float>(seen.generated);
      value -= parameters_.presence_penalty;
    }
    *logit = FiniteOf(value);
  }
}

TokenId TokenOfLastResort(std::span<const std::uint64_t> allowed, std::int32_t vocabulary) {
  for (TokenId token = 0; token < vocabulary; ++token) {
    if (IsAllowed(allowed, token)) return token;
  }
  return 0;
}

kernels::Candidate WorstOfMinP(const kernels::RowKernels& rows, float min_p, kernels::Candidate worst) {
  if (!(min_p > 0.0f)) return worst;
  // Tokens at least min_p times as likely as the likeliest, whose z is 0.
  const kernels::Candidate least{std::min(rows.log(min_p), 0.0f), INT_MAX};
  return kernels::IsBetter(least, worst) ? least : worst;
}

LogprobScale::LogprobScale(const kernels::RowKernels& rows, float largest, std::uint64_t mass)
    : largest_(largest), log_sum_(rows.log(static_cast<float>(mass) / kernels::kMassOfOne)) {}

float LogprobScale::Of(float logit) const { return std::max((logit - largest_) - log_sum_, -FLT_MAX); }

Sampler::Sampler(kernels::KernelPath path, std::int32_t vocabulary) : sieve_(path), vocabulary_(vocabulary) {
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
  const bool adjusts = state.Adjusts(wish);
  if (state.greedy() && !adjusts) {
    const int token = sieve_.rows().argmax(logits.data(), vocabulary_);
    return logits[static_cast<std::size_t>(token)] > -FLT_MAX ? token : 0;
  }
  Sieve::FiniteLogits finite = sieve_.Finite(logits);
  if (adjusts) {
    adjusted_.assign(finite.values.begin(), finite.values.end());
    state.Adjust(wish, 0, adjusted_);
    finite = {adjusted_, sieve_.rows().max(adjusted_.data(), vocabulary_)};
  }
  if (finite.largest == kForbidden) return TokenOfLastResort(wish.allowed, vocabulary_);
  if (state.greedy()) return sieve_.rows().argmax(finite.values.data(), vocabulary_);
  return Draw(finite, state.parameters(), state.NoiseAt(wish.position));
}

void Sampler::AddLogprobs(std::span<const float> logits, std::int32_t top, ScoredToken& scored) {
  const auto [finite, largest] = sieve_.Finite(logits);
  const LogprobScale scale(sieve_.rows(), largest, sieve_.logits().mass(finite.data(), largest, vocabulary_));
  scored.logprob = scale.Of(finite[static_cast<std::size_t>(scored.token)]);
  if (top <= 0) return;
  const std::span<kernels::Candidate> best = sieve_.Best(finite, static_cast<std::size_t>(top));
  std::sort(best.begin(), best.end(), kernels::IsBetter);
  scored.top.reserve(best.size());
  for (const kernels::Candidate& candidate : best) scored.top.push_back({candidate.token, scale.Of(candidate.z)});
}

}  // namespace skein::engine
