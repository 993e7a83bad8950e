// SPDX-License-Identifier: Apache-2.0
//
// logits: passes over a whole vocabulary that drawing a token takes. A token's z is (logit - largest logit) /
// temperature: 0 for the likeliest, -infinity for one that is forbidden. Each pass reads n numbers once or twice, so
// its cost is that of second-level cache, but for draw (about 75 vector instructions for 16 tokens, most of them for
// random numbers) and weigh (about 20, and where it uses buckets 16 additions).
//
// All paths give the same bits (`ref` is plain loops): a probability's mass is exp(z) in units of 2^-40, an integer, so
// sums of masses do not depend on their order; noise is a function of (key, token); the winner is the largest score,
// the lower token among equals.
#pragma once

#include <cfloat>
#include <climits>
#include <cstdint>

#include "kernels/arithmetic.h"

namespace skein::kernels {

struct Candidate {
  float z;
  int token;
};
// The one order of tokens: larger z first, the lower token among equals.
constexpr bool IsBetter(const Candidate& a, const Candidate& b) {
  return a.z > b.z || (a.z == b.z && a.token < b.token);
}

// The worst token that may be drawn; as it stands, any that is not forbidden.
inline constexpr Candidate kWorstOfAll{-FLT_MAX, INT_MAX};

// Where noise comes from.
struct NoiseKey {
  std::uint64_t seed;
  std::uint32_t choice;
  std::uint32_t position;
};

struct LargestLogit {
  float value;
  bool finite;  // all are; otherwise `value` means nothing
};

// The token drawn and its score; INT_MAX when there was none to draw from.
struct DrawnToken {
  float score;
  int token;
};

inline constexpr int kMassBuckets = 1024;
inline constexpr float kMassOfOne = 1099511627776.0f;  // 2^40

struct LogitKernels {
  LargestLogit (*largest)(const float* x, int n) = nullptr;
  // z[i] = (x[i] - largest) / temperature. z may be x.
  void (*scale)(const float* x, float largest, float temperature, int n, float* z) = nullptr;
  // The largest of each `group`, a multiple of 16: maxima [n / group, rounded up].
  void (*maxima)(const float* x, int n, int group, float* maxima) = nullptr;
  // Tokens with low <= x <= high in their order; returns how many. Requires: `into` has room for n.
  int (*gather)(const float* x, float low, float high, int n, Candidate* into) = nullptr;
  // Adds the masses of tokens with z <= high to `buckets` [kMassBuckets], to the one of index (high - z) * scale or to
  // the last one. Sixteen (16 i … 16 i + 15) that are all below `tail` go to the last one together, which costs a
  // fifth. Requires: no z is above 0.
  void (*weigh)(const float* z, float high, float scale, float tail, int n, std::uint64_t* buckets) = nullptr;
  // The sum of the masses of exp(x - shift). Requires: n <= 2^22; no x is above shift.
  std::uint64_t (*mass)(const float* x, float shift, int n) = nullptr;
  // The token with the largest z + Gumbel noise among those that are not worse than `worst`. (Gumbel 1954; its
  // distribution is the softmax of z.) Noise has a resolution of 2^-32. z[0] is that of token `first` >= 0, by which
  // tokens are called here and in `worst`: shards of a vocabulary draw apart, and the best of what they drew is what
  // one would have drawn.
  DrawnToken (*draw)(const float* z, int first, int n, Candidate worst, const NoiseKey& key) = nullptr;
};

const LogitKernels& SelectLogits(KernelPath path);

}  // namespace skein::kernels
