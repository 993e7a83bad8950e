// SPDX-License-Identifier: Apache-2.0
//
// Drawing a token: temperature, top-k, top-p, min-p, then Gumbel noise. Each filter is the worst token that it keeps,
// in the one order of tokens (z, then id), so that what is kept is never copied: the draw skips what is worse. Nothing
// is sorted whole: top-k looks only at what is not below the k-th of the maxima of sixteen, top-p weighs buckets of z
// and sorts only what is left around the border in the one in which the mass is reached.
#include <algorithm>
#include <array>
#include <cfloat>
#include <numeric>

#include "engine/sampler.h"

namespace skein::engine {
namespace {

using kernels::Candidate;
using kernels::IsBetter;

constexpr float kUsualTail = -10.0f;  // top-p rarely keeps what is below; the beginning of a bucket
constexpr std::uint64_t kManyInBucket = 1024;

// The bucket in which the mass is reached; takes off `needed` what is before it.
std::size_t TakeWholeBuckets(std::span<const std::uint64_t> buckets, std::uint64_t& needed) {
  std::size_t border = 0;
  while (border + 1 < buckets.size() && buckets[border] < needed) needed -= buckets[border++];
  return border;
}

}  // namespace

// Requires: some logit is not forbidden, the temperature is a normal number. Then z of the largest is 0, and every
// filter keeps it.
TokenId Sampler::Draw(const Sieve::FiniteLogits& logits, const scheduler::SamplingParameters& parameters,
                      const kernels::NoiseKey& key) {
  adjusted_.resize(logits.values.size());
  sieve_.logits().scale(logits.values.data(), logits.largest, parameters.temperature, vocabulary_, adjusted_.data());
  Candidate worst = kernels::kWorstOfAll;
  if (LimitsRank(parameters, vocabulary_)) {
    const std::span<Candidate> best = sieve_.Best(adjusted_, static_cast<std::size_t>(parameters.top_k));
    worst = *std::max_element(best.begin(), best.end(), IsBetter);
    if (parameters.top_p < 1.0f) worst = sieve_.WorstOfMass(best, PartOf(sieve_.MassOf(best), parameters.top_p));
  } else if (parameters.top_p < 1.0f) {
    worst = WorstOfTopP(parameters.top_p);
  }
  worst = WorstOfMinP(sieve_.rows(), parameters.min_p, worst);
  return sieve_.logits().draw(adjusted_.data(), 0, vocabulary_, worst, key).token;
}

// The worst of the fewest likeliest tokens whose mass reaches top_p of the whole. Of adjusted_, which is z.
Candidate Sampler::WorstOfTopP(float top_p) {
  constexpr float kScale = 32.0f, kFineScale = 32768.0f;  // buckets for 1 of z
  std::array<std::uint64_t, kernels::kMassBuckets> buckets{};
  sieve_.logits().weigh(adjusted_.data(), 0.0f, kScale, kUsualTail, vocabulary_, buckets.data());
  const std::uint64_t mass = std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
  std::uint64_t needed = PartOf(mass, top_p);
  // All buckets before the border are kept whole; in it the order decides.
  std::size_t border = TakeWholeBuckets(buckets, needed);
  if (static_cast<float>(border) >= -kUsualTail * kScale) {
    buckets.fill(0);
    sieve_.logits().weigh(adjusted_.data(), 0.0f, kScale, -FLT_MAX, vocabulary_, buckets.data());
    needed = PartOf(mass, top_p);
    border = TakeWholeBuckets(buckets, needed);
  }
  float high = static_cast<float>(border) / -kScale;
  float low = border + 1 < buckets.size() ? static_cast<float>(border + 1) / -kScale : -FLT_MAX;
  // Where many tokens are in it, it is divided again. Borders are multiples of 1/32768 above -32, and high - z is exact
  // for numbers that are at most twice one another: a bucket is exactly what lies between its borders.
  if (buckets[border] > kManyInBucket * sieve_.MassOf(high)) {
    buckets.fill(0);
    sieve_.logits().weigh(adjusted_.data(), high, kFineScale, low, vocabulary_, buckets.data());
    border = TakeWholeBuckets(buckets, needed);
    if (border + 1 < buckets.size()) low = high - static_cast<float>(border + 1) / kFineScale;
    high -= static_cast<float>(border) / kFineScale;
  }
  return sieve_.WorstOfMass(sieve_.Between(adjusted_, low, high), needed);
}

}  // namespace skein::engine
