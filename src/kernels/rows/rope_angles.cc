// SPDX-License-Identifier: Apache-2.0
//
// Cosine and sine of RoPE angles by our own series in double: the C library's bits depend on the processor.
#include "kernels/rows/rows.h"

namespace skein::kernels {
namespace {

// pi/2 in three parts of 33, 33 and 53 bits (the split that Cody and Waite describe): n times the first two is exact
// for |n| < 2^20, that is for angles up to 1.6 million.
constexpr double kHalfPiHigh = 0x1.921fb544p+0;
constexpr double kHalfPiMiddle = 0x1.0b4611a6p-34;
constexpr double kHalfPiLow = 0x1.3198a2e037073p-69;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr double kRoundingMagic = 6755399441055744.0;  // 1.5 * 2^52

// Taylor series for |r| <= pi/4, Horner's way: error below 1e-16.
double SineSeries(double r) {
  constexpr double kTerms[8] = {-1.0 / 6,         1.0 / 120,         -1.0 / 5040,         1.0 / 362880,
                                -1.0 / 39916800,  1.0 / 6227020800,  -1.0 / 1307674368000, 1.0 / 355687428096000};
  const double s = r * r;
  double p = kTerms[7];
  for (int i = 6; i >= 0; --i) p = p * s + kTerms[i];
  return r + r * (s * p);
}
double CosineSeries(double r) {
  constexpr double kTerms[8] = {-1.0 / 2,       1.0 / 24,         -1.0 / 720,          1.0 / 40320,
                                -1.0 / 3628800, 1.0 / 479001600,  -1.0 / 87178291200,  1.0 / 20922789888000};
  const double s = r * r;
  double p = kTerms[7];
  for (int i = 6; i >= 0; --i) p = p * s + kTerms[i];
  return 1.0 + s * p;
}

}  // namespace

void RopeAngles(int position, const double* frequencies, int pairs, double magnitude, float* cosine, float* sine) {
  for (int i = 0; i < pairs; ++i) {
    const double angle = static_cast<double>(position) * frequencies[i];
    const double n = (angle * kTwoOverPi + kRoundingMagic) - kRoundingMagic;
    const double r = ((angle - n * kHalfPiHigh) - n * kHalfPiMiddle) - n * kHalfPiLow;
    const double s = SineSeries(r), c = CosineSeries(r);
    const int quadrant = static_cast<int>(n) & 3;
    const double turned_sine = (quadrant & 1) != 0 ? c : s;
    const double turned_cosine = (quadrant & 1) != 0 ? s : c;
    sine[i] = static_cast<float>((quadrant & 2) != 0 ? -turned_sine * magnitude : turned_sine * magnitude);
    cosine[i] = static_cast<float>(((quadrant + 1) & 2) != 0 ? -turned_cosine * magnitude : turned_cosine * magnitude);
  }
}

}  // namespace skein::kernels
