// SPDX-License-Identifier: Apache-2.0
#include "model/rope.h"

#include <algorithm>
#include <cmath>

#include "kernels/rows/rows.h"

namespace skein::model {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kLn2 = 0.69314718055994530942;

// ln x for positive finite x: x = m * 2^e with m in [sqrt(1/2), sqrt(2)), then the series of atanh.
double Log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752440) {
    m *= 2;
    --exponent;
  }
  const double t = (m - 1) / (m + 1);
  const double t2 = t * t;
  double sum = 0;
  for (int k = 41; k >= 1; k -= 2) sum = sum * t2 + 1.0 / k;
  return 2 * t * sum + exponent * kLn2;
}

// e^x by halving the argument to |x| <= ln2 / 2 and the Taylor series.
double Exp(double x) {
  const double n = std::floor(x / kLn2 + 0.5);
  const double r = x - n * kLn2;
  double sum = 1;
  for (int k = 24; k >= 1; --k) sum = 1 + sum * r / k;
  return std::ldexp(sum, static_cast<int>(n));
}

// Llama 3.1: wavelengths longer than the original context are stretched by `factor`, short ones stay, and between
// the two bounds both are mixed.
double ScaleLlama3(double frequency, const formats::RopeConfig& rope, double original) {
  const double turns = original * frequency / (2 * kPi);  // original context in wavelengths
  if (turns < rope.low_frequency_factor) return frequency / rope.factor;
  if (turns > rope.high_frequency_factor) return frequency;
  const double span = rope.high_frequency_factor - rope.low_frequency_factor;
  const double keep = span > 0 ? (turns - rope.low_frequency_factor) / span : 1.0;
  return (1 - keep) * frequency / rope.factor + keep * frequency;
}

// YaRN (Peng et al. 2023): the pair whose wavelength makes `turns` rotations within the original context.
double YarnPair(double turns, const formats::RopeConfig& rope, double original) {
  return rope.dimensions * Log(original / (turns * 2 * kPi)) / (2 * Log(rope.base));
}

void ScaleYarn(const formats::RopeConfig& rope, double original, RopeFrequencies& out) {
  const double last = rope.dimensions - 1;
  const double low = std::max(0.0, std::floor(YarnPair(rope.beta_fast, rope, original)));
  double high = std::min(last, std::ceil(YarnPair(rope.beta_slow, rope, original)));
  if (high == low) high += 0.001;
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    out.values[i] = out.values[i] / rope.factor * ramp + out.values[i] * (1 - ramp);
  }
  out.magnitude = rope.attention_factor > 0 ? rope.attention_factor
                  : rope.factor > 1         ? 0.1 * Log(rope.factor) + 1
                                            : 1.0;
}

}  // namespace

RopeFrequencies MakeRopeFrequencies(const formats::ModelConfig& config) {
  const formats::RopeConfig& rope = config.rope;
  RopeFrequencies out;
  const int pairs = rope.dimensions / 2;
  const double log_base = Log(rope.base);
  for (int i = 0; i < pairs; ++i) out.values.push_back(Exp(-log_base * (2.0 * i) / rope.dimensions));
  const double original = rope.original_context > 0 ? rope.original_context : config.context;
  switch (rope.scaling) {
    case formats::RopeScaling::kNone:
      break;
    case formats::RopeScaling::kLinear:
      for (double& frequency : out.values) frequency /= rope.factor;
      break;
    case formats::RopeScaling::kLlama3:
      for (double& frequency : out.values) frequency = ScaleLlama3(frequency, rope, original);
      break;
    case formats::RopeScaling::kYarn:
      ScaleYarn(rope, original, out);
      break;
  }
  for (std::size_t i = 0; i < rope.frequency_divisors.size() && i < out.values.size(); ++i) {
    out.values[i] /= static_cast<double>(rope.frequency_divisors[i]);
  }
  return out;
}

std::uint64_t RopeTable::BytesFor(int pairs, std::uint64_t positions) {
  return positions * 2 * sizeof(float) * static_cast<std::uint64_t>(pairs);
}

Result<RopeTable> RopeTable::Create(RopeFrequencies frequencies, int positions) {
  RopeTable table;
  table.pairs_ = static_cast<int>(frequencies.values.size());
  table.frequencies_ = std::move(frequencies);
  SKEIN_ASSIGN_OR_RETURN(table.table_, Buffer::Allocate(BytesFor(table.pairs_, static_cast<std::uint64_t>(positions))));
  return table;
}

void RopeTable::Compute(int begin, int end) {
  for (int position = begin; position < end; ++position) {
    float* row = table_.as<float>() + std::int64_t{2} * position * pairs_;
    kernels::RopeAngles(position, frequencies_.values.data(), pairs_, frequencies_.magnitude, row, row + pairs_);
  }
}

}  // namespace skein::model
