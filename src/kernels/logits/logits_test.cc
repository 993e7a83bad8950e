// SPDX-License-Identifier: Apache-2.0
//
// Logit kernels: every path against ref, bit for bit. That ref draws from the right distribution is tested with the
// sampler.
#include "kernels/logits/logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace skein::kernels {
namespace {

const int kSizes[] = {1, 2, 15, 16, 17, 48, 63, 64, 65, 127, 1000, 4999};

class Logits : public testing::Test {
 protected:
  static std::vector<KernelPath> FastPaths() {
    std::vector<KernelPath> paths = AvailablePaths();
    std::erase(paths, KernelPath::kRef);
    return paths;
  }
  std::vector<float> Random(int n, float deviation) {
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& v : x) v = deviation * normal(random_);
    return x;
  }
  // z of random logits: some alike, some forbidden, some without mass.
  std::vector<float> RandomZ(int n, float deviation) {
    std::vector<float> z = Random(n, deviation);
    for (std::size_t i = 0; i < z.size(); ++i) {
      if (i % 5 == 1) z[i] = std::round(z[i]);
      if (i % 11 == 3) z[i] = -HUGE_VALF;
      if (i % 13 == 4) z[i] = -60.0f;
    }
    ref_.scale(z.data(), ref_.largest(z.data(), n).value, 0.7f, n, z.data());
    return z;
  }

  std::mt19937 random_{11};
  const LogitKernels& ref_ = SelectLogits(KernelPath::kRef);
};

// The same seed would give other answers on another machine.
TEST_F(Logits, PathsDrawTheSame) {
  for (const KernelPath path : FastPaths()) {
    const LogitKernels& fast = SelectLogits(path);
    for (const int n : kSizes) {
      for (const float deviation : {0.0f, 0.01f, 1.0f, 4.0f, 30.0f}) {
        const std::vector<float> z = RandomZ(n, deviation);
        for (std::uint32_t draw = 0; draw < 40; ++draw) {
          const NoiseKey key{0xfedcba9876543210ull + draw, draw % 3, draw * 1000};
          Candidate worst = kWorstOfAll;
          if (draw % 4 == 1) worst = {-2.0f, n};
          if (draw % 4 == 2) worst = {z[static_cast<std::size_t>(n) / 2], n / 2};
          if (draw % 4 == 3) worst = {0.0f, n};
          const int first = draw % 2 == 0 ? 0 : static_cast<int>(draw) * 7;
          worst.token = std::min(INT_MAX - first, worst.token) + first;
          const DrawnToken drawn = fast.draw(z.data(), first, n, worst, key),
                           wanted = ref_.draw(z.data(), first, n, worst, key);
          ASSERT_EQ(std::pair(drawn.token, drawn.score), std::pair(wanted.token, wanted.score))
              << NameOf(path) << " n " << n << " deviation " << deviation << " draw " << draw;
        }
      }
    }
    const float forbidden[2] = {-HUGE_VALF, -HUGE_VALF};
    EXPECT_EQ(fast.draw(forbidden, 0, 2, kWorstOfAll, {1, 2, 3}).token, INT_MAX);
    EXPECT_EQ(ref_.draw(forbidden, 0, 2, kWorstOfAll, {1, 2, 3}).token, INT_MAX);
  }
}

// Ranks that share a vocabulary would draw other tokens than one.
TEST_F(Logits, TheBestOfWhatShardsDrawIsWhatOneDraws) {
  constexpr int kCount = 1500;
  for (const KernelPath path : AvailablePaths()) {
    const LogitKernels& logits = SelectLogits(path);
    for (std::uint32_t draw = 0; draw < 200; ++draw) {
      const std::vector<float> z = RandomZ(kCount, draw % 2 == 0 ? 0.3f : 3.0f);
      const NoiseKey key{draw, 1, 2};
      const Candidate worst{-0.1f * static_cast<float>(draw), 700};
      const DrawnToken whole = logits.draw(z.data(), 0, kCount, worst, key);
      DrawnToken best{-HUGE_VALF, INT_MAX};
      for (int begin = 0; begin < kCount;) {
        const int end = std::min(kCount, begin + static_cast<int>(random_() % 400));
        const DrawnToken drawn = logits.draw(z.data() + begin, begin, end - begin, worst, key);
        if (drawn.token != INT_MAX && drawn.score > best.score) best = drawn;
        begin = end;
      }
      ASSERT_EQ(std::pair(best.token, best.score), std::pair(whole.token, whole.score))
          << NameOf(path) << " draw " << draw;
    }
  }
}

// Log-probabilities would depend on the processor, or on how many ranks share the vocabulary.
TEST_F(Logits, SumsOfMassesAreExact) {
  for (const KernelPath path : AvailablePaths()) {
    const LogitKernels& logits = SelectLogits(path);
    for (const int n : kSizes) {
      const std::vector<float> z = RandomZ(n, 3.0f);
      std::uint64_t one_by_one = 0;
      for (int i = 0; i < n; ++i) one_by_one += ref_.mass(&z[static_cast<std::size_t>(i)], 0.0f, 1);
      EXPECT_EQ(logits.mass(z.data(), 0.0f, n), one_by_one) << NameOf(path) << " n " << n;
      EXPECT_EQ(logits.mass(z.data(), 1.5f, n), ref_.mass(z.data(), 1.5f, n)) << NameOf(path) << " n " << n;
    }
    EXPECT_EQ(logits.mass(nullptr, 0.0f, 0), 0u);
  }
}

// What top-p keeps would depend on the processor.
TEST_F(Logits, PathsWeighTheSame) {
  for (const KernelPath path : FastPaths()) {
    const LogitKernels& fast = SelectLogits(path);
    for (const int n : kSizes) {
      for (const float deviation : {0.0f, 1.0f, 4.0f, 30.0f}) {
        SCOPED_TRACE(testing::Message() << NameOf(path) << " n " << n << " deviation " << deviation);
        const std::vector<float> z = RandomZ(n, deviation);
        for (const float tail : {-10.0f, -1.5f, -FLT_MAX}) {
          std::vector<std::uint64_t> in_ref(kMassBuckets), in_fast(kMassBuckets);
          for (const auto& [high, scale] : {std::pair(0.0f, 32.0f), {-1.46875f, 0x1p15f}}) {
            ref_.weigh(z.data(), high, scale, tail, n, in_ref.data());
            fast.weigh(z.data(), high, scale, tail, n, in_fast.data());
            ASSERT_EQ(in_ref, in_fast);
          }
        }
      }
    }
  }
}

// A token would be passed over, or one kept that should not be.
TEST_F(Logits, PathsFindTheSame) {
  for (const KernelPath path : FastPaths()) {
    const LogitKernels& fast = SelectLogits(path);
    for (const int n : kSizes) {
      SCOPED_TRACE(testing::Message() << NameOf(path) << " n " << n);
      std::vector<float> x = Random(n, 3.0f);
      const auto same = [&] {
        const LargestLogit a = ref_.largest(x.data(), n), b = fast.largest(x.data(), n);
        EXPECT_EQ(a.finite, b.finite);
        if (a.finite) {
          EXPECT_EQ(a.value, b.value);
        }
        return b.finite;
      };
      EXPECT_TRUE(same());
      std::vector<float> a(x.size()), b(x.size());
      for (const float temperature : {0.37f, 1.0f}) {
        ref_.scale(x.data(), 2.5f, temperature, n, a.data());
        fast.scale(x.data(), 2.5f, temperature, n, b.data());
        EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
      }
      for (const int group : {16, 64, 256}) {
        ref_.maxima(x.data(), n, group, a.data());
        fast.maxima(x.data(), n, group, b.data());
        EXPECT_EQ(std::memcmp(a.data(), b.data(), static_cast<std::size_t>((n + group - 1) / group) * sizeof(float)),
                  0);
      }
      for (const auto& [low, high] : {std::pair(-FLT_MAX, FLT_MAX), {-1.0f, 1.0f}, {x[0], x[0]}, {9.0f, 8.0f}}) {
        std::vector<Candidate> in_ref(x.size()), in_fast(x.size());
        const int count = ref_.gather(x.data(), low, high, n, in_ref.data());
        ASSERT_EQ(fast.gather(x.data(), low, high, n, in_fast.data()), count);
        EXPECT_EQ(std::memcmp(in_ref.data(), in_fast.data(), static_cast<std::size_t>(count) * sizeof(Candidate)), 0);
      }
      for (const float bad : {HUGE_VALF, -HUGE_VALF, NAN}) {
        for (const int place : {0, n / 2, n - 1}) {
          const float before = std::exchange(x[static_cast<std::size_t>(place)], bad);
          EXPECT_FALSE(same());
          x[static_cast<std::size_t>(place)] = before;
        }
      }
    }
  }
}

}  // namespace
}  // namespace skein::kernels
