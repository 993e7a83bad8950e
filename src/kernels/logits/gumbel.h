// SPDX-License-Identifier: Apache-2.0
//
// A token's score and the best of them, for the logit kernels. Everything has internal linkage, as in
// simd/scalar_math.h and for the same reason.
#pragma once

#include <climits>
#include <cmath>
#include <cstdint>

#include "kernels/simd/scalar_math.h"

namespace skein::kernels {
namespace {

// z - log(e), where e = -log(1 - u) is exponentially distributed and u uniform in (0, 1), 1 itself only by rounding. For
// small u, where 1 - u would lose its digits, by the series of -log(1 - u).
[[maybe_unused]] float NoisyScore(float z, std::uint32_t random) {
  const float u = (static_cast<float>(random) + 0.5f) * 0x1p-32f;
  float e = 0.0f;
  if (u < 0.0625f) {
    e = u * (1.0f + u * (0.5f + u * (1.0f / 3.0f + u * (0.25f + u * 0.2f))));
  } else {
    e = -math::ScalarLog(1.0f - u);
  }
  return z - math::ScalarLog(e);
}

// The largest score, the lower token among equals.
struct Winner {
  float score = -HUGE_VALF;
  int token = INT_MAX;
  void Offer(float other, int other_token) {
    if (other > score || (other == score && other_token < token)) {
      score = other;
      token = other_token;
    }
  }
};

}  // namespace
}  // namespace skein::kernels
