// SPDX-License-Identifier: Apache-2.0
//
// The logit kernels over V16 and W8. Included by logits_avx2.cc and logits_avx512.cc, which their flags make different;
// everything here has internal linkage. logits_ref.cc says in plain loops what each one means.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/logits/gumbel.h"
#include "kernels/logits/logits.h"
#include "kernels/simd/v16.h"
#include "kernels/simd/w8.h"

namespace skein::kernels {
namespace {

using namespace simd;  // NOLINT: an implementation shared by two units, included nowhere else

// Numbers i … i + 15 of x, `rest` where there are fewer than 16.
[[gnu::always_inline]] inline V16 LoadOr(const float* x, int i, int n, float rest) {
  if (i + 16 <= n) return Load(x + i);
  return SelectFirst(LoadPartial(x + i, n - i), n - i, Set(rest));
}

LargestLogit Largest(const float* x, int n) {
  const V16 zero = Zero();
  V16 largest[4] = {Set(-HUGE_VALF), Set(-HUGE_VALF), Set(-HUGE_VALF), Set(-HUGE_VALF)};
  V16 not_finite[4] = {zero, zero, zero, zero};  // 0 times infinity is NaN
  int i = 0;
  const auto take = [&](V16 v, V16& most, V16& bad) {
    most = Max(v, most);
    bad = Fma(v, zero, bad);
  };
  for (; i + 64 <= n; i += 64) {
    take(Load(x + i), largest[0], not_finite[0]);
    take(Load(x + i + 16), largest[1], not_finite[1]);
    take(Load(x + i + 32), largest[2], not_finite[2]);
    take(Load(x + i + 48), largest[3], not_finite[3]);
  }
  for (; i < n; i += 16) take(LoadOr(x, i, n, x[i]), largest[0], not_finite[0]);
  const float most = ReduceMax(Max(Max(largest[0], largest[1]), Max(largest[2], largest[3])));
  const float bad = ReduceAdd(Add(Add(not_finite[0], not_finite[1]), Add(not_finite[2], not_finite[3])));
  return {most + 0.0f, bad == 0.0f};
}

// z = change(x - largest).
template <typename Change>
[[gnu::always_inline]] inline void ShiftAnd(Change change, const float* x, float largest, int n, float* z) {
  const V16 shift = Set(largest);
  int i = 0;
  for (; i + 16 <= n; i += 16) Store(z + i, change(Sub(Load(x + i), shift)));
  if (i < n) StorePartial(z + i, change(Sub(LoadPartial(x + i, n - i), shift)), n - i);
}

void Scale(const float* x, float largest, float temperature, int n, float* z) {
  // Divisions take three times as long as reading, and at the usual temperature they change nothing.
  if (temperature == 1.0f) return ShiftAnd([](V16 v) { return v; }, x, largest, n, z);
  ShiftAnd([divisor = Set(temperature)](V16 v) { return Div(v, divisor); }, x, largest, n, z);
}

void Maxima(const float* x, int n, int group, float* maxima) {
  for (int first = 0; first < n; first += group) {
    const int end = std::min(n, first + group);
    V16 most = LoadOr(x, first, end, -HUGE_VALF);
    for (int i = first + 16; i < end; i += 16) most = Max(LoadOr(x, i, end, -HUGE_VALF), most);
    *maxima++ = ReduceMax(most);
  }
}

int Gather(const float* x, float low, float high, int n, Candidate* into) {
  const V16 lowest = Set(low), highest = Set(high);
  int count = 0;
  for (int i = 0; i < n; i += 16) {
    const V16 v = LoadOr(x, i, n, NAN);
    unsigned lanes = AtLeastLanes(v, lowest) & AtLeastLanes(highest, v);
    for (; lanes != 0; lanes &= lanes - 1) {
      const int token = i + __builtin_ctz(lanes);
      into[count++] = {x[token], token};
    }
  }
  return count;
}

// Four sets of buckets, lane by lane in turn: neighbours that belong to the same bucket do not wait for one another.
void Weigh(const float* z, float high, float scale, float tail, int n, std::uint64_t* buckets) {
  constexpr int kSets = 4;
  alignas(64) std::uint64_t sets[kSets][kMassBuckets] = {};
  const V16 highest = Set(high), per_bucket = Set(scale), last = Set(static_cast<float>(kMassBuckets - 1));
  W8 rest = SetWide(0);
  for (int i = 0; i < n; i += 16) {
    const V16 v = LoadOr(z, i, n, -HUGE_VALF);
    const V16 mass = ZeroWhereLess(highest, v, Mul(Exp(v), Set(kMassOfOne)));
    const W8 low_masses = TruncateLow(mass), high_masses = TruncateHigh(mass);
    if (AtLeastLanes(v, Set(tail)) == 0) {
      rest = AddWide(rest, AddWide(low_masses, high_masses));
      continue;
    }
    alignas(64) std::int32_t bucket[16];
    alignas(64) std::uint64_t masses[16];
    StoreBits(bucket, TruncateToBits(Min(Max(Mul(Sub(highest, v), per_bucket), Zero()), last)));
    StoreWide(masses, low_masses);
    StoreWide(masses + 8, high_masses);
#pragma GCC unroll 16
    for (int lane = 0; lane < 16; ++lane) sets[lane % kSets][bucket[lane]] += masses[lane];
  }
  for (int bucket = 0; bucket < kMassBuckets; ++bucket) {
    for (int set = 0; set < kSets; ++set) buckets[bucket] += sets[set][bucket];
  }
  buckets[kMassBuckets - 1] += SumWide(rest);
}

std::uint64_t SumOfMasses(const float* x, float shift, int n) {
  const V16 away = Set(shift), one = Set(kMassOfOne);
  W8 low[2] = {SetWide(0), SetWide(0)}, high[2] = {SetWide(0), SetWide(0)};
  const auto take = [&](V16 v, int chain) {
    const V16 mass = Mul(Exp(Sub(v, away)), one);
    low[chain] = AddWide(low[chain], TruncateLow(mass));
    high[chain] = AddWide(high[chain], TruncateHigh(mass));
  };
  int i = 0;
  for (; i + 32 <= n; i += 32) {
    take(Load(x + i), 0);
    take(Load(x + i + 16), 1);
  }
  for (; i < n; i += 16) take(LoadOr(x, i, n, -HUGE_VALF), 0);
  return SumWide(AddWide(AddWide(low[0], high[0]), AddWide(low[1], high[1])));
}

// Philox (base/philox.h) for 16 counters at once. Variables rather than arrays: g++ 12 keeps arrays of vectors in
// memory.
struct Philox16 {
  explicit Philox16(const NoiseKey& key) : position(SetWide(key.position)), choice(SetWide(key.choice)) {
    std::uint32_t k0 = static_cast<std::uint32_t>(key.seed), k1 = static_cast<std::uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
      key0[round] = SetWide(k0);
      key1[round] = SetWide(k1);
    }
  }

  // Only the low half of a lane is a counter; what stands above is never used.
  struct Counters {
    W8 c0, c1, c2, c3;
  };
  [[gnu::always_inline]] Counters Advance(Counters c, int round) const {
    const W8 product0 = MultiplyLow(c.c0, SetWide(0xD2511F53)), product1 = MultiplyLow(c.c2, SetWide(0xCD9E8D57));
    return {Xor3(UpperHalf(product1), c.c1, key0[round]), product1, Xor3(UpperHalf(product0), c.c3, key1[round]),
            product0};
  }

  // Numbers of the 64 tokens from 4 * first on, in order. Lane l of the joined halves has the counter
  // first + 4 * (l mod 4) + l / 4, which TransposeQuarters puts right.
  struct Numbers {
    V16 a, b, c, d;
  };
  [[gnu::always_inline]] Numbers Take(std::uint32_t first) const {
    alignas(64) static constexpr std::uint64_t kEven[8] = {0, 8, 1, 9, 2, 10, 3, 11};
    alignas(64) static constexpr std::uint64_t kOdd[8] = {4, 12, 5, 13, 6, 14, 7, 15};
    Counters even{AddWide(SetWide(first), LoadWide(kEven)), position, choice, SetWide(0)};
    Counters odd{AddWide(SetWide(first), LoadWide(kOdd)), position, choice, SetWide(0)};
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      even = Advance(even, round);
      odd = Advance(odd, round);
    }
    Numbers numbers{JoinHalves(even.c0, odd.c0), JoinHalves(even.c1, odd.c1), JoinHalves(even.c2, odd.c2),
                    JoinHalves(even.c3, odd.c3)};
    TransposeQuarters(numbers.a, numbers.b, numbers.c, numbers.d);
    return numbers;
  }

  W8 position, choice;
  W8 key0[10], key1[10];
};

// An upper bound of exp(x), at most 9 % too large: between powers of two the line through both lies above the curve.
// The small addition is for the rounding of the product. NaN and what is very small give 2^-126.
[[gnu::always_inline]] inline V16 ExpBound(V16 x) {
  V16 exponent = Add(Mul(x, Set(1.4426951f)), Set(0.002f));
  exponent = Min(Max(exponent, Set(-126.0f)), Set(126.0f));
  return TruncateToBits(Mul(Add(exponent, Set(127.0f)), Set(0x1p23f)));
}

// Whether tokens with this z and noise may score at least `best`: with e >= u a score is at most z - log(u), so not
// unless u <= exp(z - best). Compares a number that is not larger than u.
[[gnu::always_inline]] inline unsigned LanesThatMayWin(V16 z, V16 random, V16 best) {
  return AtLeastLanes(ExpBound(Sub(z, best)), Mul(HalfOfBits(random), Set(0x1p-31f * 0.999999f)));
}

class Drawing {
 public:
  // Noise comes for four tokens at once: places are counted from the multiple of 4 before `first`.
  Drawing(const float* z, int first, int n, Candidate worst, const NoiseKey& key)
      : z_(z), lead_(first % 4), base_(first - lead_), end_(lead_ + n), worst_(worst), philox_(key) {}

  DrawnToken Run() {
    float padded[64];
    for (int place = 0; place < end_; place += 64) {
      const int from = std::max(place, lead_), to = std::min(place + 64, end_);
      const float* part = z_ + (from - lead_);
      if (to - from < 64) {
        std::fill(padded, padded + 64, -HUGE_VALF);
        std::copy(part, part + (to - from), padded + (from - place));
        part = padded;
      }
      TakePart(place, Load(part), Load(part + 16), Load(part + 32), Load(part + 48));
    }
    return {winner_.score, winner_.token};
  }

 private:
  [[gnu::always_inline]] void TakePart(int place, V16 a, V16 b, V16 c, V16 d) {
    constexpr float kNoiseMax = 23.0f;  // -log(2^-33) is 22.9
    const float lowest = std::max(worst_.z, winner_.score - kNoiseMax);
    if (AtLeastLanes(Max(Max(a, b), Max(c, d)), Set(lowest)) == 0) return;
    const Philox16::Numbers noise = philox_.Take(static_cast<std::uint32_t>((base_ + place) / 4));
    const V16 best = Set(winner_.score);
    const std::uint64_t lanes =
        LanesThatMayWin(a, noise.a, best) | std::uint64_t{LanesThatMayWin(b, noise.b, best)} << 16 |
        std::uint64_t{LanesThatMayWin(c, noise.c, best)} << 32 | std::uint64_t{LanesThatMayWin(d, noise.d, best)} << 48;
    if (lanes != 0) Offer(place, lanes, noise);
  }

  [[gnu::noinline]] void Offer(int place, std::uint64_t lanes, const Philox16::Numbers& noise) {
    alignas(64) std::int32_t random[64];
    StoreBits(random, noise.a);
    StoreBits(random + 16, noise.b);
    StoreBits(random + 32, noise.c);
    StoreBits(random + 48, noise.d);
    for (; lanes != 0; lanes &= lanes - 1) {
      const int lane = __builtin_ctzll(lanes);
      const int at = place + lane;
      if (at < lead_ || at >= end_) continue;
      const Candidate candidate{z_[at - lead_], base_ + at};
      if (IsBetter(worst_, candidate)) continue;
      winner_.Offer(NoisyScore(candidate.z, static_cast<std::uint32_t>(random[lane])), candidate.token);
    }
  }

  const float* z_;  // of place lead_
  const int lead_, base_, end_;
  const Candidate worst_;
  const Philox16 philox_;
  Winner winner_;
};

DrawnToken Draw(const float* z, int first, int n, Candidate worst, const NoiseKey& key) {
  return Drawing(z, first, n, worst, key).Run();
}

constexpr LogitKernels kLogitKernels = {.largest = Largest,
                                        .scale = Scale,
                                        .maxima = Maxima,
                                        .gather = Gather,
                                        .weigh = Weigh,
                                        .mass = SumOfMasses,
                                        .draw = Draw};

}  // namespace
}  // namespace skein::kernels
