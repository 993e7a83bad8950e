// SPDX-License-Identifier: Apache-2.0
//
// The logit kernels as plain loops: what they mean, bit for bit. Slow and obvious; never optimised.
#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "kernels/logits/gumbel.h"
#include "kernels/logits/logits_paths.h"

namespace skein::kernels {
namespace {

LargestLogit Largest(const float* x, int n) {
  LargestLogit largest{-HUGE_VALF, true};
  for (int i = 0; i < n; ++i) {
    if (x[i] > largest.value) largest.value = x[i];
    if (!std::isfinite(x[i])) largest.finite = false;
  }
  largest.value += 0.0f;  // -0 becomes +0, so that no order of comparisons shows
  return largest;
}

void Scale(const float* x, float largest, float temperature, int n, float* z) {
  for (int i = 0; i < n; ++i) z[i] = (x[i] - largest) / temperature;
}

void Maxima(const float* x, int n, int group, float* maxima) {
  for (int i = 0; i < n; ++i) maxima[i / group] = i % group == 0 ? x[i] : std::max(maxima[i / group], x[i]);
}

int Gather(const float* x, float low, float high, int n, Candidate* into) {
  int count = 0;
  for (int i = 0; i < n; ++i) {
    if (x[i] >= low && x[i] <= high) into[count++] = {x[i], i};
  }
  return count;
}

std::uint64_t MassOf(float z) { return static_cast<std::uint64_t>(math::ScalarExp(z) * kMassOfOne); }

void Weigh(const float* z, float high, float scale, float tail, int n, std::uint64_t* buckets) {
  for (int i = 0; i < n; ++i) {
    if (z[i] > high) continue;
    const int sixteen = i / 16 * 16;
    const float place = (high - z[i]) * scale;
    const bool in_tail =
        std::all_of(z + sixteen, z + std::min(n, sixteen + 16), [=](float other) { return other < tail; });
    buckets[in_tail || place >= kMassBuckets ? kMassBuckets - 1 : static_cast<int>(place)] += MassOf(z[i]);
  }
}

std::uint64_t SumOfMasses(const float* x, float shift, int n) {
  std::uint64_t sum = 0;
  for (int i = 0; i < n; ++i) sum += MassOf(x[i] - shift);
  return sum;
}

DrawnToken Draw(const float* z, int first, int n, Candidate worst, const NoiseKey& key) {
  Winner winner;
  for (int i = 0; i < n; ++i) {
    if (IsBetter(worst, {z[i], first + i})) continue;
    const auto token = static_cast<std::uint32_t>(first + i);
    const PhiloxCounter noise = Philox({token / 4, key.position, key.choice, 0}, PhiloxKeyOf(key.seed));
    winner.Offer(NoisyScore(z[i], noise[token % 4]), first + i);
  }
  return {winner.score, winner.token};
}

constexpr LogitKernels kLogitKernels = {.largest = Largest,
                                        .scale = Scale,
                                        .maxima = Maxima,
                                        .gather = Gather,
                                        .weigh = Weigh,
                                        .mass = SumOfMasses,
                                        .draw = Draw};

}  // namespace

const LogitKernels& LogitsRef() { return kLogitKernels; }

}  // namespace skein::kernels
