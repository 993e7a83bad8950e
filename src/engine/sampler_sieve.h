// SPDX-License-Identifier: Apache-2.0
//
// Sieve finds tokens by their numbers (logits or z, kernels/logits/logits.h) without sorting a vocabulary: the best so
// many, those between two numbers, and the one down to which the best reach a mass. What Sampler does with a vocabulary
// and ShardReading with a part of one.
//
// Tokens are counted from the first number. What is returned lies in the sieve's memory until its next call; memory
// grows once.
//
// Thread rule: one worker's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/logits/logits.h"
#include "kernels/rows/rows.h"

namespace skein::engine {

// The number that stands for a broken one: NaN is the lowest, infinities are the numbers next to them.
float FiniteOf(float logit);

class Sieve {
 public:
  explicit Sieve(kernels::KernelPath path) : rows_(&kernels::SelectRows(path)), logits_(&kernels::SelectLogits(path)) {}

  const kernels::RowKernels& rows() const { return *rows_; }
  const kernels::LogitKernels& logits() const { return *logits_; }

  // The logits themselves, or a copy in which every one is finite; and the largest (-infinity when there is none).
  struct FiniteLogits {
    std::span<const float> values;
    float largest;
  };
  FiniteLogits Finite(std::span<const float> logits);

  // The tokens with low <= value <= high, in their order.
  std::span<kernels::Candidate> Between(std::span<const float> values, float low, float high);
  // The `count` best but forbidden ones, in no order. Requires: count > 0.
  std::span<kernels::Candidate> Best(std::span<const float> values, std::size_t count);
  // The `count` best of the candidates, which change places. Requires: count > 0.
  static std::span<kernels::Candidate> Best(std::span<kernels::Candidate> candidates, std::size_t count);

  // exp(z) in units of 2^-40.
  std::uint64_t MassOf(float z) const { return static_cast<std::uint64_t>(rows_->exp(z) * kernels::kMassOfOne); }
  std::uint64_t MassOf(std::span<const kernels::Candidate> candidates) const;
  // The worst of the fewest best candidates whose mass reaches `mass`, one at least; they change places. kWorstOfAll
  // without candidates.
  kernels::Candidate WorstOfMass(std::span<kernels::Candidate> candidates, std::uint64_t mass) const;

 private:
  const kernels::RowKernels* rows_;
  const kernels::LogitKernels* logits_;
  std::vector<float> finite_;
  std::vector<float> maxima_;  // of groups of values
  std::vector<kernels::Candidate> room_;
};

// The part of a mass that top-p wants.
inline std::uint64_t PartOf(std::uint64_t mass, float top_p) {
  return static_cast<std::uint64_t>(static_cast<double>(mass) * (top_p > 0.0f ? top_p : 0.0f));
}

}  // namespace skein::engine
