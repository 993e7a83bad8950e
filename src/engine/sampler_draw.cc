// SPDX-License-Identifier: Apache-2.0
//
// Drawing a token: temperature, top-k, top-p, min-p, then Gumbel noise. Each filter is the worst token that it keeps, in
// the one order of tokens (z, then id), so that what is kept is never copied: the draw skips what is worse. Nothing is sorted
// whole: top-k looks only at what is not below the k-th of the maxima of sixteen, top-p weighs buckets of z and sorts only
// what is left around the border in the one in which the mass is reached.
#include <algorithm>
#include <array>
#include <climits>
#include <functional>
#include <numeric>

#include "engine/sampler.h"

namespace skein::engine {
namespace {

using kernels::Candidate;
using kernels::IsBetter;

constexpr float kUsualTail = -10.0f;         // top-p rarely keeps what is below; the beginning of a bucket
constexpr std::uint64_t kManyInBucket = 1024;
constexpr std::ptrdiff_t kSortedCount = 32;  // candidates that are sorted rather than halved

// The bucket in which the mass is reached; takes off `needed` what is before it.
std::size_t TakeWholeBuckets(std::span<const std::uint64_t> buckets, std::uint64_t& needed) {
  std::size_t border = 0;
  while (border + 1 < buckets.size() && buckets[border] < needed) needed -= buckets[border++];
  return border;
}

}  // namespace

// Requires: some logit is not forbidden, temperature > 0.
TokenId Sampler::Draw(const FiniteLogits& logits, const scheduler::SamplingParameters& parameters,
                      const kernels::NoiseKey& key) {
  adjusted_.resize(logits.values.size());
  kernels_->scale(logits.values.data(), logits.largest, parameters.temperature, vocabulary_, adjusted_.data());
  Candidate worst = kernels::kWorstOfAll;
  const bool by_rank = parameters.top_k > 0 && parameters.top_k < vocabulary_;
  if (by_rank) {
    KeepBest(adjusted_, static_cast<std::size_t>(parameters.top_k));
    worst = *std::max_element(candidates_.begin(), candidates_.end(), IsBetter);
  }
  if (parameters.top_p < 1.0f) {
    if (by_rank) {
      std::uint64_t mass = 0;
      for (const Candidate& candidate : candidates_) mass += Mass(candidate.z);
      worst = WorstOfCandidates(static_cast<std::uint64_t>(static_cast<double>(mass) * parameters.top_p));
    } else {
      worst = WorstOfMass(parameters.top_p);
    }
  }
  if (parameters.min_p > 0.0f) {  // tokens at least min_p times as likely as the likeliest, whose z is 0
    const Candidate least{std::min(rows_->log(parameters.min_p), 0.0f), INT_MAX};
    if (IsBetter(least, worst)) worst = least;
  }
  const int token = kernels_->draw(adjusted_.data(), vocabulary_, worst, key);
  // No token at all: a temperature that is no number, or so small that it counts as zero.
  return token < vocabulary_ ? token : rows_->argmax(adjusted_.data(), vocabulary_);
}

// candidates_ = the tokens whose value lies between `low` and `high`, in their order.
void Sampler::Gather(std::span<const float> values, float low, float high) {
  room_.resize(values.size());  // grows once
  const int count = kernels_->gather(values.data(), low, high, static_cast<int>(values.size()), room_.data());
  candidates_ = std::span(room_).first(static_cast<std::size_t>(count));
}

// candidates_ = the `count` largest values but forbidden ones, lower ids first among equals, in no order.
void Sampler::KeepBest(std::span<const float> values, std::size_t count) {
  const int n = static_cast<int>(values.size());
  // `count` of the maxima of groups are at least as large as the one of that rank; so then are the values that are kept.
  // Few large groups, while there are several times as many as values wanted.
  std::size_t group = 256;
  while (group > 16 && 4 * count > values.size() / group) group /= 2;
  maxima_.resize((values.size() + group - 1) / group);
  float lowest = -FLT_MAX;
  if (count <= maxima_.size()) {
    kernels_->maxima(values.data(), n, static_cast<int>(group), maxima_.data());
    const auto last = maxima_.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    std::nth_element(maxima_.begin(), last, maxima_.end(), std::greater<>());
    lowest = std::max(lowest, *last);
  }
  Gather(values, lowest, FLT_MAX);
  if (candidates_.size() <= count) return;
  std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(count) - 1, candidates_.end(),
                   IsBetter);
  candidates_ = candidates_.first(count);
}

std::uint64_t Sampler::Mass(float z) const {
  return static_cast<std::uint64_t>(rows_->exp(z) * kernels::kMassOfOne);
}

// The worst of the fewest likeliest tokens whose mass reaches top_p of the whole. Of adjusted_, which is z.
Candidate Sampler::WorstOfMass(float top_p) {
  constexpr float kScale = 32.0f, kFineScale = 32768.0f;  // buckets for 1 of z
  std::array<std::uint64_t, kernels::kMassBuckets> buckets{};
  kernels_->weigh(adjusted_.data(), 0.0f, kScale, kUsualTail, vocabulary_, buckets.data());
  const std::uint64_t mass = std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
  auto needed = static_cast<std::uint64_t>(static_cast<double>(mass) * top_p);
  // All buckets before the border are kept whole; in it the order decides.
  std::size_t border = TakeWholeBuckets(buckets, needed);
  if (static_cast<float>(border) >= -kUsualTail * kScale) {
    buckets.fill(0);
    kernels_->weigh(adjusted_.data(), 0.0f, kScale, -FLT_MAX, vocabulary_, buckets.data());
    needed = static_cast<std::uint64_t>(static_cast<double>(mass) * top_p);
    border = TakeWholeBuckets(buckets, needed);
  }
  float high = static_cast<float>(border) / -kScale;
  float low = border + 1 < buckets.size() ? static_cast<float>(border + 1) / -kScale : -FLT_MAX;
  // Where many tokens are in it, it is divided again. Borders are multiples of 1/32768 above -32, and high - z is exact for
  // numbers that are at most twice one another: a bucket is exactly what lies between its borders.
  if (buckets[border] > kManyInBucket * Mass(high)) {
    buckets.fill(0);
    kernels_->weigh(adjusted_.data(), high, kFineScale, low, vocabulary_, buckets.data());
    border = TakeWholeBuckets(buckets, needed);
    if (border + 1 < buckets.size()) low = high - static_cast<float>(border + 1) / kFineScale;
    high -= static_cast<float>(border) / kFineScale;
  }
  Gather(adjusted_, low, high);
  return WorstOfCandidates(needed);
}

// The worst of the fewest best candidates whose mass reaches `mass`; at least one is kept. Halves them until few are left.
Candidate Sampler::WorstOfCandidates(std::uint64_t mass) {
  auto begin = candidates_.begin(), end = candidates_.end();
  while (end - begin > kSortedCount) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, IsBetter);
    std::uint64_t better = 0;
    for (auto candidate = begin; candidate != middle; ++candidate) better += Mass(candidate->z);
    if (better >= mass) {
      end = middle;
    } else {
      mass -= better;
      begin = middle;
    }
  }
  std::sort(begin, end, IsBetter);
  for (; begin + 1 < end; ++begin) {
    const std::uint64_t own = Mass(begin->z);
    if (own >= mass) break;
    mass -= own;
  }
  return begin == end ? kernels::kWorstOfAll : *begin;
}

}  // namespace skein::engine
