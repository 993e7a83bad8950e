// SPDX-License-Identifier: Apache-2.0
//
// Drawing a token: temperature, top-k, top-p, min-p, then Gumbel noise (Gumbel 1954; the largest of logit + noise has
// the softmax's distribution). Nothing is sorted whole: top-k keeps a buffer of twice k, top-p weighs buckets of z and
// sorts only the one in which the mass is reached, and most of the vocabulary is ruled out by a bound before a logarithm
// is taken.
//
// A probability's mass is exp(z) in units of 2^-40, an integer: sums of masses do not depend on the order in which they
// are taken, so neither does the set that top-p keeps. Noise has a resolution of 2^-32.
#include <algorithm>
#include <array>
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
constexpr std::size_t kBuckets = 1024;          // of 1/32 in z, the last one open
constexpr std::size_t kManyCandidates = 4096;   // beyond, noise is cheaper for the whole vocabulary at once

std::size_t BucketOf(float z) { return z <= -31.96875f ? kBuckets - 1 : static_cast<std::size_t>(z * -32.0f); }

// Uniform in (0, 1); 1 itself only by rounding.
float Uniform(std::uint32_t random) { return (static_cast<float>(random) + 0.5f) * 0x1p-32f; }

// An upper bound of exp(x), at most 9 % too large: between powers of two the line through both lies above the curve. The
// small addition is for the rounding of the product. NaN and what is very small give 2^-126.
float ExpBound(float x) {
  float exponent = x * 1.4426951f + 0.002f;
  exponent = exponent > -126.0f ? exponent : -126.0f;
  exponent = exponent < 126.0f ? exponent : 126.0f;
  return std::bit_cast<float>(static_cast<std::int32_t>((exponent + 127.0f) * 0x1p23f));
}

// Whether a token with this z and noise may score more than `best`: with e >= u its score is at most z - log(u), so not
// unless u < exp(z - best). Compares a number that is not larger than u.
bool MayWin(float z, std::uint32_t random, float best) {
  return static_cast<float>(static_cast<std::int32_t>(random >> 1)) * (0x1p-31f * 0.999999f) <= ExpBound(z - best);
}

// Of 64 tokens. A loop of fixed length without branches, so that compilers make vector code of it.
bool AnyMayWin(const float* z, const std::array<std::uint32_t, 64>& random, float best) {
  std::int32_t any = 0;
  for (std::size_t i = 0; i < 64; ++i) any |= MayWin(z[i], random[i], best) ? 1 : 0;
  return any != 0;
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
    const std::size_t whole = adjusted_.size() / 64 * 64;
    for (std::size_t first = 0; first < whole; first += 64) {  // of fixed length, for compilers to make vector code of
      for (std::size_t i = 0; i < 64; ++i) adjusted_[first + i] = scaled(adjusted_[first + i]);
    }
    for (std::size_t i = whole; i < adjusted_.size(); ++i) adjusted_[i] = scaled(adjusted_[i]);
  }
  const bool by_mass = parameters.top_p < 1.0f;
  if (by_mass) KeepTopP(adjusted_, by_rank, parameters.top_p);
  if (parameters.min_p > 0.0f) {
    if (!by_rank && !by_mass) Gather(adjusted_, rows_->log(parameters.min_p));
    KeepMinP(parameters.min_p);
  }
  if (!by_rank && !by_mass && parameters.min_p <= 0.0f) return DrawFromAll(adjusted_, key);
  if (candidates_.size() <= kManyCandidates) return DrawFromCandidates(key);
  std::fill(adjusted_.begin(), adjusted_.end(), kForbidden);
  for (const Candidate& candidate : candidates_) adjusted_[static_cast<std::size_t>(candidate.token)] = candidate.z;
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
void Sampler::KeepTopP(std::span<const float> z, bool filtered, float top_p) {
  std::array<std::uint64_t, kBuckets> masses;
  const auto weigh = [&] {
    std::uint64_t whole = 0;
    masses.fill(0);
    for (const Candidate& candidate : candidates_) {
      const std::uint64_t mass = Mass(candidate.z);
      masses[BucketOf(candidate.z)] += mass;
      whole += mass;
    }
    return whole;
  };
  std::uint64_t needed = 0;
  if (filtered) {
    needed = static_cast<std::uint64_t>(static_cast<double>(weigh()) * top_p);
  } else {
    needed = static_cast<std::uint64_t>(static_cast<double>(rows_->sum_exp(z.data(), 0.0f, vocabulary_)) * kMassOfOne *
                                        top_p);
    Gather(z, kUsualTail);
    if (weigh() < needed) {
      Gather(z, -FLT_MAX);
      weigh();
    }
  }
  // All buckets before the border are kept whole; in it the order decides.
  std::size_t border = 0;
  while (border + 1 < kBuckets && masses[border] < needed) needed -= masses[border++];
  const auto begin = std::partition(candidates_.begin(), candidates_.end(),
                                    [=](const Candidate& candidate) { return BucketOf(candidate.z) < border; });
  const auto end = std::partition(begin, candidates_.end(),
                                  [=](const Candidate& candidate) { return BucketOf(candidate.z) == border; });
  std::sort(begin, end, IsBetter);
  auto kept = begin;
  while (kept != end) {
    const std::uint64_t mass = Mass(kept->z);
    ++kept;
    if (mass >= needed) break;
    needed -= mass;
  }
  candidates_.erase(kept, candidates_.end());
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

// The largest score, the lower id among equals.
struct Sampler::Winner {
  float score;
  TokenId token;
  void Offer(float other, TokenId other_token) {
    if (other > score || (other == score && other_token < token)) {
      score = other;
      token = other_token;
    }
  }
};

float Sampler::ScoreOf(Candidate candidate, const Key& key) const {
  const auto token = static_cast<std::uint32_t>(candidate.token);
  return NoisyScore(candidate.z, Philox({token / 4, key.position, key.choice, 0}, PhiloxKeyOf(key.seed))[token % 4]);
}

// The likeliest token goes first: its score rules out most of the others.
TokenId Sampler::DrawFromAll(std::span<const float> z, const Key& key) const {
  const TokenId likeliest = rows_->argmax(z.data(), vocabulary_);
  Winner winner{ScoreOf({z[static_cast<std::size_t>(likeliest)], likeliest}, key), likeliest};
  std::array<std::uint32_t, 64> noise;
  std::array<float, 64> tail;
  for (std::size_t first = 0; first < z.size(); first += 64) {
    const std::size_t count = std::min<std::size_t>(64, z.size() - first);
    const float* part = z.data() + first;
    if (count < 64) {
      tail.fill(kForbidden);
      std::copy_n(part, count, tail.begin());
      part = tail.data();
    }
    PhiloxSixteen(static_cast<std::uint32_t>(first / 4), {key.position, key.choice, 0}, PhiloxKeyOf(key.seed), noise);
    if (!AnyMayWin(part, noise, winner.score)) continue;
    for (std::size_t i = 0; i < count; ++i) {
      if (MayWin(part[i], noise[i], winner.score)) {
        winner.Offer(NoisyScore(part[i], noise[i]), static_cast<TokenId>(first + i));
      }
    }
  }
  return winner.token;
}

TokenId Sampler::DrawFromCandidates(const Key& key) const {
  const Candidate likeliest = *std::min_element(candidates_.begin(), candidates_.end(), IsBetter);
  Winner winner{ScoreOf(likeliest, key), likeliest.token};
  for (const Candidate& candidate : candidates_) {
    if (candidate.z + kNoiseMax < winner.score) continue;
    winner.Offer(ScoreOf(candidate, key), candidate.token);
  }
  return winner.token;
}

}  // namespace skein::engine
