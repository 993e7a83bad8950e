// SPDX-License-Identifier: Apache-2.0
//
// Sampler turns one row of logits into a token. What applies, in this order: mask, bias, penalties, temperature, top-k,
// top-p, min-p. Then the token is drawn by Gumbel noise: the kept token with the largest logit/temperature + noise, the
// noise keyed by (seed, choice, position, token id), so the same tokens give the same continuation whatever else is in
// the batch, and a sharded vocabulary draws the same token. Log-probabilities are of the raw logits.
//
// SamplerState is what a rank keeps of a sequence from its SequenceStart to its release.
//
// Thread rule: a Sampler has scratch and belongs to one worker; a SamplerState belongs to one sequence. Different
// workers may sample different sequences at once. Nothing is allocated but ScoredToken::top once scratch has grown.
//
// Bits: everything goes through the kernels or plain IEEE operations in a fixed order; sums of probabilities that
// decide what top-p keeps are exact integers. So the token depends neither on the C library nor on the kernel path.
#pragma once

#include <cfloat>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "engine/sampler_sieve.h"
#include "kernels/logits/logits.h"
#include "scheduler/sampling.h"
#include "scheduler/step_plan.h"

namespace skein::engine {

// What is wanted of one sampled row.
struct SampleWish {
  std::int32_t position = 0;  // of the token to be sampled: the row's last position + 1
  std::int32_t top = 0;
  bool logprob = false;                         // implied by top > 0
  std::span<const std::uint64_t> allowed = {};  // grammar mask; empty: all
};

class SamplerState {
 public:
  SamplerState() = default;
  explicit SamplerState(const scheduler::SequenceStart& start);

  // Counts a token that was generated, for penalties. The caller does this after each token sampled.
  void Accept(TokenId token);

  const scheduler::SamplingParameters& parameters() const { return parameters_; }
  // The likeliest token is wanted: also at a temperature that no float can be divided by.
  bool greedy() const { return !(parameters_.temperature >= FLT_MIN); }
  kernels::NoiseKey NoiseAt(std::int32_t position) const;

  // Whether a mask, bias, penalties or stop tokens that are not due yet change logits.
  bool Adjusts(const SampleWish& wish) const;
  // Changes them: `logits` are those of the tokens from `first` on, all finite. A token that may not be drawn gets
  // -infinity.
  void Adjust(const SampleWish& wish, TokenId first, std::span<float> logits) const;

 private:
  struct Seen {
    std::int32_t generated = 0;  // how often; 0: only in the prompt
  };
  bool penalised_ = false;
  scheduler::SamplingParameters parameters_;
  std::int32_t choice_ = 0;
  std::int32_t prompt_tokens_ = 0;
  std::int32_t min_tokens_ = 0;
  std::vector<TokenId> stop_tokens_;
  std::unordered_map<TokenId, Seen> seen_;
};

// The token when none may be drawn: the lowest that the mask allows, or 0.
TokenId TokenOfLastResort(std::span<const std::uint64_t> allowed, std::int32_t vocabulary);

// Whether top-k takes away anything.
inline bool LimitsRank(const scheduler::SamplingParameters& parameters, std::int32_t vocabulary) {
  return parameters.top_k > 0 && parameters.top_k < vocabulary;
}

// The worst token of a kept set that min-p lets through, or `worst` where that is better.
kernels::Candidate WorstOfMinP(const kernels::RowKernels& rows, float min_p, kernels::Candidate worst);

// log p = (logit - largest) - log(sum of exp(logit - largest)), of finite logits.
class LogprobScale {
 public:
  LogprobScale() = default;
  // `mass`: of exp(logit - largest) over the vocabulary (LogitKernels::mass).
  LogprobScale(const kernels::RowKernels& rows, float largest, std::uint64_t mass);
  float Of(float logit) const;

 private:
  float largest_ = 0, log_sum_ = 0;
};

class Sampler {
 public:
  Sampler(kernels::KernelPath path, std::int32_t vocabulary);

  // The next token. Requires: logits.size() == vocabulary. NaN and -infinity count as the lowest number, +infinity as
  // the largest. When bias and stop tokens leave nothing, the result is the lowest id that the mask allows, or 0.
  scheduler::ScoredToken Sample(std::span<const float> logits, const SamplerState& state, const SampleWish& wish);
  // The raw log-probability of `target`, with the `top` likeliest tokens.
  scheduler::ScoredToken Score(std::span<const float> logits, TokenId target, std::int32_t top);

 private:
  void AddLogprobs(std::span<const float> logits, std::int32_t top, scheduler::ScoredToken& scored);
  TokenId Choose(std::span<const float> logits, const SamplerState& state, const SampleWish& wish);
  TokenId Draw(const Sieve::FiniteLogits& logits, const scheduler::SamplingParameters& parameters,
               const kernels::NoiseKey& key);
  kernels::Candidate WorstOfTopP(float top_p);

  Sieve sieve_;
  std::int32_t vocabulary_;
  std::vector<float> adjusted_;  // logits on their way, then z (logits.h); what is not allowed is -infinity
};

}  // namespace skein::engine
