// SPDX-License-Identifier: Apache-2.0
//
// Drawing a token: temperature, top-k, top-p, min-p, then Gumbel noise (Gumbel 1954; the largest of logit + noise has
// the softmax's distribution). Nothing is sorted whole: top-k keeps a buffer of twice k, top-p halves a range until it
// finds where the mass is reached, and most of the vocabulary is ruled out by a bound before a logarithm is taken.
//
// A probability's mass is exp(z) in units of 2^-40, an integer: sums of masses do not depend on the order in which they
// are taken, so neither does the set that top-p keeps. Noise has a resolution of 2^-32.
#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

#include "base/philox.h"
#include "engine/sampler.h"

namespace skein::engine {
namespace {

constexpr float kForbidden = -HUGE_VALF;
constexpr double kMassOfOne = 1099511627776.0;  // 2^40
constexpr float kMassless = -28.5f;             // exp of it is below 2^-40
constexpr float kUsualTail = -10.0f;            // top-p rarely keeps what is below
constexpr float kNoiseMax = 23.0f;              // -log(2^-33) is 22.9

// Uniform in (0, 1); 1 itself only by rounding.
float Uniform(std::uint32_t random) { return (static_cast<float>(random) + 0.5f) * 0x1p-32f; }

// An upper bound of exp(x), at most 9 % too large: between powers of two the line through both lies above the curve. The
// small addition is for the rounding of the product.
float ExpBound(float x) {
  const float exponent = x * 1.4426951f + 0.002f;
  if (!(exponent >= -126.0f)) return 0.0f;  // NaN too
  if (exponent > 126.0f) return FLT_MAX;
  return std::bit_cast<float>(static_cast<std::int32_t>((exponent + 127.0f) * 0x1p23f));
}

}  // namespace

// From adjusted_, in which something is allowed. Requires: temperature > 0.
TokenId Sampler::Draw(const scheduler::SamplingParameters& parameters, const Key& key) {
  const float largest = rows_->max(adjusted_.data(), vocabulary_);
  const float temperature = parameters.temperature;
  const auto scaled = [=](float logit) { return (logit - largest) / temperature; };  // at most 0, overflow is -infinity
  const bool by_rank = parameters.top_k > 0 && parameters.top_k < vocabulary_;
  if (by_rank) {
    KeepBest(adjusted_, static_cast<std::size_t>(parameters.top_k));
    for (Candidate& candidate : candidates_) candidate.z = scaled(candidate.z);
  } else {
    for (float& logit : adjusted_) logit = scaled(logit);
  }
  const bool by_mass = parameters.top_p < 1.0f;
  if (by_mass) KeepTopP(adjusted_, by_rank, parameters.top_p);
  if (parameters.min_p > 0.0f) {
    if (!by_rank && !by_mass) Gather(adjusted_, rows_->log(parameters.min_p));
    KeepMinP(parameters.min_p);
  }
  if (by_rank || by_mass || parameters.min_p > 0.0f) return DrawFromCandidates(key);
  return DrawFromAll(adjusted_, key);
}

// candidates_ = the `count` largest values, lower ids first among equals, in no order.
void Sampler::KeepBest(std::span<const float> values, std::size_t count) {
  candidates_.clear();
  count = std::min(count, values.size());
  const std::size_t room = std::min(2 * count + 64, values.size());
  const auto cut = [&] {
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(count) - 1,
                     candidates_.end(), IsBetter);
    candidates_.resize(count);
  };
  float worst = kForbidden;  // a later token must be larger: among equals the earlier one is kept
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] <= worst) continue;
    candidates_.push_back({values[i], static_cast<TokenId>(i)});
    if (candidates_.size() > room) {
      cut();
      worst = candidates_.back().z;
    }
  }
  if (candidates_.size() > count) cut();
}

// candidates_ = all tokens with z >= lowest.
void Sampler::Gather(std::span<const float> z, float lowest) {
  candidates_.clear();
  for (std::size_t i = 0; i < z.size(); ++i) {
    if (z[i] >= lowest && z[i] != kForbidden) candidates_.push_back({z[i], static_cast<TokenId>(i)});
  }
}

std::uint64_t Sampler::Mass(float z) const {
  return z < kMassless ? 0 : static_cast<std::uint64_t>(static_cast<double>(rows_->exp(z)) * kMassOfOne);
}

// Keeps the fewest likeliest tokens whose mass reaches top_p of the whole: of candidates_ when they were filtered, else
// of z.
void Sampler::KeepTopP(std::span<float> z, bool filtered, float top_p) {
  const auto mass_between = [this](std::size_t begin, std::size_t end) {
    std::uint64_t mass = 0;
    for (std::size_t i = begin; i < end; ++i) mass += Mass(candidates_[i].z);
    return mass;
  };
  std::uint64_t needed = 0;
  if (filtered) {
    needed = static_cast<std::uint64_t>(static_cast<double>(mass_between(0, candidates_.size())) * top_p);
  } else {
    needed = static_cast<std::uint64_t>(static_cast<double>(rows_->sum_exp(z.data(), 0.0f, vocabulary_)) * kMassOfOne *
                                        top_p);
    Gather(z, kUsualTail);
    if (mass_between(0, candidates_.size()) < needed) Gather(z, -FLT_MAX);
  }
  // The border lies in [begin, end): the best `begin` are kept for certain, those behind `end` are not.
  std::size_t begin = 0, end = candidates_.size();
  const auto at = [this](std::size_t i) { return candidates_.begin() + static_cast<std::ptrdiff_t>(i); };
  while (end - begin > 16) {
    const std::size_t middle = begin + (end - begin) / 2;
    std::nth_element(at(begin), at(middle), at(end), IsBetter);
    const std::uint64_t mass = mass_between(begin, middle);
    if (mass >= needed) {
      end = middle;
    } else {
      needed -= mass;
      begin = middle;
    }
  }
  std::sort(at(begin), at(end), IsBetter);
  while (begin < end) {
    const std::uint64_t mass = Mass(candidates_[begin++].z);
    if (mass >= needed) break;
    needed -= mass;
  }
  candidates_.resize(std::max<std::size_t>(begin, 1));
}

// Keeps tokens at least min_p times as likely as the likeliest, whose z is 0.
void Sampler::KeepMinP(float min_p) {
  const float lowest = rows_->log(min_p);
  std::erase_if(candidates_, [=](const Candidate& candidate) { return candidate.z < lowest; });
}

// z - log(e), where e = -log(1 - u) is exponentially distributed. For small u, where 1 - u would lose its digits, by the
// series of -log(1 - u).
float Sampler::NoisyScore(float z, std::uint32_t random) const {
  const float u = Uniform(random);
  float e = 0.0f;
  if (u < 0.0625f) {
    e = u * (1.0f + u * (0.5f + u * (1.0f / 3.0f + u * (0.25f + u * 0.2f))));
  } else {
    e = -rows_->log(1.0f - u);
  }
  return z - rows_->log(e);
}

TokenId Sampler::DrawFromAll(std::span<const float> z, const Key& key) const {
  const PhiloxKey philox_key = PhiloxKeyOf(key.seed);
  const auto noise_of = [&](std::uint32_t block) {
    return Philox({block, key.position, key.choice, 0}, philox_key);
  };
  // The likeliest token first: its score rules out most of the others.
  TokenId best_token = rows_->argmax(z.data(), vocabulary_);
  float best = NoisyScore(z[static_cast<std::size_t>(best_token)],
                          noise_of(static_cast<std::uint32_t>(best_token) / 4)[static_cast<std::size_t>(best_token) % 4]);
  const std::size_t count = z.size();
  for (std::size_t first = 0; first < count; first += 4) {
    const std::size_t end = std::min(first + 4, count);
    float largest = z[first];
    for (std::size_t i = first + 1; i < end; ++i) largest = std::max(largest, z[i]);
    if (largest + kNoiseMax < best) continue;
    const PhiloxCounter noise = noise_of(static_cast<std::uint32_t>(first / 4));
    for (std::size_t i = first; i < end; ++i) {
      // e >= u, so the score is at most z - log(u): no better than `best` unless u < exp(z - best).
      if (Uniform(noise[i - first]) > ExpBound(z[i] - best)) continue;
      const float score = NoisyScore(z[i], noise[i - first]);
      const auto token = static_cast<TokenId>(i);
      if (score > best || (score == best && token < best_token)) {
        best = score;
        best_token = token;
      }
    }
  }
  return best_token;
}

TokenId Sampler::DrawFromCandidates(const Key& key) const {
  const PhiloxKey philox_key = PhiloxKeyOf(key.seed);
  const Candidate* best_candidate = nullptr;
  float best = kForbidden;
  for (const Candidate& candidate : candidates_) {
    const auto token = static_cast<std::uint32_t>(candidate.token);
    const PhiloxCounter noise = Philox({token / 4, key.position, key.choice, 0}, philox_key);
    const float score = NoisyScore(candidate.z, noise[token % 4]);
    if (best_candidate == nullptr || score > best || (score == best && candidate.token < best_candidate->token)) {
      best = score;
      best_candidate = &candidate;
    }
  }
  return best_candidate->token;
}

}  // namespace skein::engine
