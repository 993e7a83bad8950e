// SPDX-License-Identifier: Apache-2.0
#include "engine/sampler_sieve.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <functional>

namespace skein::engine {

using kernels::Candidate;
using kernels::IsBetter;

namespace {
constexpr std::ptrdiff_t kSortedCount = 32;  // candidates that are sorted rather than halved
}

float FiniteOf(float logit) {
  if (std::isnan(logit)) return -FLT_MAX;
  return std::clamp(logit, -FLT_MAX, FLT_MAX);
}

Sieve::FiniteLogits Sieve::Finite(std::span<const float> logits) {
  const int n = static_cast<int>(logits.size());
  const kernels::LargestLogit largest = logits_->largest(logits.data(), n);
  if (largest.finite) return {logits, largest.value};
  finite_.resize(logits.size());
  std::transform(logits.begin(), logits.end(), finite_.begin(), FiniteOf);
  return {finite_, rows_->max(finite_.data(), n)};
}

std::span<Candidate> Sieve::Between(std::span<const float> values, float low, float high) {
  room_.resize(std::max(room_.size(), values.size()));
  const int count = logits_->gather(values.data(), low, high, static_cast<int>(values.size()), room_.data());
  return std::span(room_).first(static_cast<std::size_t>(count));
}

std::span<Candidate> Sieve::Best(std::span<const float> values, std::size_t count) {
  const int n = static_cast<int>(values.size());
  // `count` of the maxima of groups are at least as large as the one of that rank; so then are the values that are
  // kept. Few large groups, while there are several times as many as values wanted.
  std::size_t group = 256;
  while (group > 16 && 4 * count > values.size() / group) group /= 2;
  maxima_.resize((values.size() + group - 1) / group);
  float lowest = -FLT_MAX;
  if (count <= maxima_.size()) {
    logits_->maxima(values.data(), n, static_cast<int>(group), maxima_.data());
    const auto last = maxima_.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    std::nth_element(maxima_.begin(), last, maxima_.end(), std::greater<>());
    lowest = std::max(lowest, *last);
  }
  return Best(Between(values, lowest, FLT_MAX), count);
}

std::span<Candidate> Sieve::Best(std::span<Candidate> candidates, std::size_t count) {
  if (candidates.size() <= count) return candidates;
  std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count) - 1, candidates.end(),
                   IsBetter);
  return candidates.first(count);
}

std::uint64_t Sieve::MassOf(std::span<const Candidate> candidates) const {
  std::uint64_t mass = 0;
  for (const Candidate& candidate : candidates) mass += MassOf(candidate.z);
  return mass;
}

// Halves them until few are left.
Candidate Sieve::WorstOfMass(std::span<Candidate> candidates, std::uint64_t mass) const {
  auto begin = candidates.begin(), end = candidates.end();
  while (end - begin > kSortedCount) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, IsBetter);
    const std::uint64_t better = MassOf(std::span<const Candidate>(begin, middle));
    if (better >= mass) {
      end = middle;
    } else {
      mass -= better;
      begin = middle;
    }
  }
  std::sort(begin, end, IsBetter);
  for (; begin + 1 < end; ++begin) {
    const std::uint64_t own = MassOf(begin->z);
    if (own >= mass) break;
    mass -= own;
  }
  return begin == end ? kernels::kWorstOfAll : *begin;
}

}  // namespace skein::engine
