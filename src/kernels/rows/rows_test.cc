// SPDX-License-Identifier: Apache-2.0
//
// Row kernels: every path against ref, bit for bit, and ref against double precision.
#include "kernels/rows/rows.h"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace skein::kernels {
namespace {

const int kSizes[] = {1, 2, 12, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 100, 576, 577, 1536};

class Rows : public testing::Test {
 protected:
  void SetUp() override { _mm_setcsr(_mm_getcsr() | 0x8040); }

  std::vector<float> Random(int n, float deviation = 1.0f) {
    std::normal_distribution<float> normal(0.0f, deviation);
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& v : x) v = normal(random_);
    return x;
  }
  static std::vector<KernelPath> FastPaths() {
    std::vector<KernelPath> paths = AvailablePaths();
    std::erase(paths, KernelPath::kRef);
    return paths;
  }
  static bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

  std::mt19937 random_{7};
  const RowKernels& ref_ = SelectRows(KernelPath::kRef);
};

// Otherwise a model's answer would depend on the processor that it runs on.
TEST_F(Rows, PathsGiveTheSameBits) {
  for (KernelPath path : FastPaths()) {
    const RowKernels& fast = SelectRows(path);
    for (int n : kSizes) {
      SCOPED_TRACE(testing::Message() << NameOf(path) << " n " << n);
      const std::vector<float> x = Random(n, 3.0f), w = Random(n);
      std::vector<float> a(x.size()), b(x.size());
      ref_.rms_norm(x.data(), w.data(), 1e-5f, n, a.data());
      fast.rms_norm(x.data(), w.data(), 1e-5f, n, b.data());
      EXPECT_TRUE(SameBits(a, b));
      const int stride = n + 3;
      const std::vector<float> gates = Random(3 * stride), ups = Random(3 * stride);
      std::vector<float> c3(static_cast<std::size_t>(3 * n + 2)), d3(c3.size());
      ref_.swiglu(gates.data(), ups.data(), stride, 3, n, c3.data(), n + 1);
      fast.swiglu(gates.data(), ups.data(), stride, 3, n, d3.data(), n + 1);
      EXPECT_TRUE(SameBits(c3, d3));
      ref_.add(gates.data(), stride, 3, n, c3.data(), n + 1);
      fast.add(gates.data(), stride, 3, n, d3.data(), n + 1);
      EXPECT_TRUE(SameBits(c3, d3));
      const std::vector<float> c = Random(n), s = Random(n);
      const int dimensions = n / 2 * 2;
      a = x, b = x;
      ref_.rope(a.data(), dimensions, c.data(), s.data());
      fast.rope(b.data(), dimensions, c.data(), s.data());
      EXPECT_TRUE(SameBits(a, b));
      EXPECT_EQ(ref_.sum_exp(x.data(), 5.0f, n), fast.sum_exp(x.data(), 5.0f, n));
      EXPECT_EQ(ref_.max(x.data(), n), fast.max(x.data(), n));
      EXPECT_EQ(ref_.argmax(x.data(), n), fast.argmax(x.data(), n));
    }
  }
}

// Otherwise activations would reach the matrices in other places or rounded otherwise than the weights expect.
TEST_F(Rows, PreparedActivationsAreTheSame) {
  int uneven = 0;
  for (KernelPath path : FastPaths()) {
    const RowKernels& fast = SelectRows(path);
    for (Arithmetic arithmetic : {Arithmetic::kInt8G32, Arithmetic::kBf16T, Arithmetic::kBf16P, Arithmetic::kExact}) {
      for (auto [k, slice] : {std::pair{576, 64}, {1536, 0}, {80, 40}, {72, 24}, {100, 0}, {33, 0}, {960, 80}}) {
        SCOPED_TRACE(testing::Message() << NameOf(path) << " " << NameOf(arithmetic) << " k " << k << "/" << slice);
        const Cells cells = MakeCells(k, slice);
        // Rows some floats apart, as they stand in a wider matrix.
        constexpr int kRows = 7;
        const int stride = k + 5;
        std::vector<float> x = Random(kRows * stride);
        for (int i = 0; i < k && i < 20; ++i) x[static_cast<std::size_t>(i)] = i == 3 ? 1e-35f : 0.0f;
        for (std::size_t i = 37; i < x.size(); i += 101) x[i] *= 40.0f;  // uneven cells
        Activations a(arithmetic, cells, kRows), b(arithmetic, cells, kRows), c(arithmetic, cells, kRows);
        for (int row = 0; row < kRows; ++row) {
          ref_.prepare(x.data() + row * stride, row, a);
          fast.prepare(x.data() + row * stride, row, b);
        }
        const int middle = cells.count() / 2;
        const int begin = cells.cells[static_cast<std::size_t>(middle)].begin;
        fast.prepare_cells(x.data(), stride, 0, kRows, 0, middle, c);
        if (cells.cells[static_cast<std::size_t>(middle)].count > 0) {
          fast.prepare_cells(x.data() + begin, stride, 0, 3, middle, cells.count(), c);
          ref_.prepare_cells(x.data() + begin + 3 * stride, stride, 3, kRows, middle, cells.count(), c);
        }
        const bool int8 = arithmetic == Arithmetic::kInt8G32;
        const std::size_t bytes = static_cast<std::size_t>(cells.stored_columns()) *
                                  (int8 ? 1u : arithmetic == Arithmetic::kExact ? 4u : 2u);
        for (int row = 0; row < kRows; ++row) {
          EXPECT_EQ(std::memcmp(a.q(row), b.q(row), bytes), 0);
          EXPECT_EQ(std::memcmp(a.q(row), c.q(row), bytes), 0);
          for (int cell = 0; int8 && cell < cells.count(); ++cell) {
            EXPECT_EQ(a.scale(row)[cell], b.scale(row)[cell]);
            EXPECT_EQ(a.scale(row)[cell], c.scale(row)[cell]);
            EXPECT_EQ(a.sum(row)[cell], b.sum(row)[cell]);
            EXPECT_EQ(a.sum(row)[cell], c.sum(row)[cell]);
            EXPECT_EQ(a.scaled_sum(row)[cell], b.scaled_sum(row)[cell]);
            EXPECT_EQ(a.scaled_sum(row)[cell], c.scaled_sum(row)[cell]);
            EXPECT_EQ(a.uneven(row)[cell], b.uneven(row)[cell]);
            EXPECT_EQ(a.uneven(row)[cell], c.uneven(row)[cell]);
            if (a.uneven(row)[cell] == 0) continue;
            ++uneven;
            EXPECT_EQ(a.residual_sum(row)[cell], b.residual_sum(row)[cell]);
            EXPECT_EQ(a.residual_sum(row)[cell], c.residual_sum(row)[cell]);
            EXPECT_EQ(std::memcmp(a.residual(row) + 32 * cell, b.residual(row) + 32 * cell, 32), 0);
            EXPECT_EQ(std::memcmp(a.residual(row) + 32 * cell, c.residual(row) + 32 * cell, 32), 0);
          }
        }
      }
    }
  }
  EXPECT_GT(uneven, 100);
}

// Otherwise one value that stands far out would leave nothing of the 31 beside it.
TEST_F(Rows, UnevenCellsKeepTheirSmallValues) {
  const Cells cells = MakeCells(64, 0);
  std::vector<float> x = Random(64);
  for (float& v : x) v = std::clamp(v, -2.0f, 2.0f);
  x[5] = 300.0f;
  Activations input(Arithmetic::kInt8G32, cells, 1);
  ref_.prepare(x.data(), 0, input);
  EXPECT_EQ(input.uneven(0)[0], 1);
  EXPECT_EQ(input.uneven(0)[1], 0);
  static constexpr int kPlaceInQuad[4] = {0, 2, 1, 3};
  for (int i = 0; i < 64; ++i) {
    const int place = i / 4 * 4 + kPlaceInQuad[i % 4], cell = i / 32;
    float got = input.q(0)[place] * input.scale(0)[cell];
    if (cell == 0) got += input.residual(0)[place] * input.scale(0)[cell] * kResidualStep;
    // Half a step: of the scale, or of a 256th of it.
    EXPECT_NEAR(got, x[static_cast<std::size_t>(i)], input.scale(0)[cell] * (cell == 0 ? 0.51f / 256.0f : 0.51f)) << i;
  }
}

// Otherwise greedy decoding would pick a token that is not the likeliest, or another one on another processor.
TEST_F(Rows, ArgMaxTakesTheLowestIndexAndNeverNaN) {
  std::vector<KernelPath> paths = FastPaths();
  paths.push_back(KernelPath::kRef);
  for (KernelPath path : paths) {
    const RowKernels& rows = SelectRows(path);
    for (int n : {1, 5, 16, 70, 1000, 49152}) {
      std::vector<float> x = Random(n);
      const int first = n / 3, second = n - 1;
      x[static_cast<std::size_t>(first)] = x[static_cast<std::size_t>(second)] = 50.0f;
      if (first > 0) x[0] = NAN;
      EXPECT_EQ(rows.argmax(x.data(), n), first);
      EXPECT_EQ(rows.max(x.data(), n), 50.0f);
      std::fill(x.begin(), x.end(), NAN);
      EXPECT_EQ(rows.argmax(x.data(), n), 0);
      std::fill(x.begin(), x.end(), -HUGE_VALF);
      EXPECT_EQ(rows.argmax(x.data(), n), 0);
    }
  }
}

double UlpsOff(float got, double wanted) {
  const float near = static_cast<float>(wanted);
  const double ulp = std::ldexp(1.0, std::ilogb(near) - 23);
  return std::fabs(static_cast<double>(got) - wanted) / ulp;
}

// Otherwise probabilities and log-probabilities would be off, or differ between scalar and vector code.
TEST_F(Rows, ExpAndLogAreAccurate) {
  double worst_exp = 0.0, worst_log = 0.0;
  for (int i = 0; i <= 400000; ++i) {
    const float x = -87.3f + 175.6f * static_cast<float>(i) / 400000.0f;
    worst_exp = std::max(worst_exp, UlpsOff(ref_.exp(x), std::exp(static_cast<double>(x))));
    const float y = std::bit_cast<float>(0x00800000u + static_cast<std::uint32_t>(i) * 5300u);
    if (y != 1.0f) worst_log = std::max(worst_log, UlpsOff(ref_.log(y), std::log(static_cast<double>(y))));
  }
  EXPECT_LT(worst_exp, 2.0);
  EXPECT_LT(worst_log, 2.0);
  EXPECT_EQ(ref_.exp(0.0f), 1.0f);
  EXPECT_EQ(ref_.exp(-HUGE_VALF), 0.0f);
  EXPECT_EQ(ref_.exp(-1000.0f), 0.0f);
  EXPECT_TRUE(std::isnan(ref_.exp(NAN)));
  EXPECT_EQ(ref_.log(1.0f), 0.0f);
  EXPECT_EQ(ref_.log(0.0f), -HUGE_VALF);
  EXPECT_TRUE(std::isnan(ref_.log(-1.0f)));
  for (KernelPath path : FastPaths()) {
    const RowKernels& rows = SelectRows(path);
    for (int i = 0; i < 20000; ++i) {
      const float x = -100.0f + 0.01f * static_cast<float>(i);
      const float wanted = ref_.exp(x);
      ASSERT_EQ(rows.exp(x), wanted) << x;
      ASSERT_EQ(rows.sum_exp(&x, 0.0f, 1), wanted) << x;
      ASSERT_EQ(rows.log(wanted), ref_.log(wanted)) << x;
    }
  }
}

// Otherwise positions far into a long context would be rotated wrongly.
TEST_F(Rows, RopeAnglesAreAccurateFarOut) {
  std::vector<double> frequencies;
  for (int i = 0; i < 32; ++i) frequencies.push_back(std::pow(100000.0, -i / 32.0));
  std::vector<float> c(32), s(32);
  for (int position : {0, 1, 2, 7, 100, 511, 2048, 131071, 999999}) {
    RopeAngles(position, frequencies.data(), 32, 1.25, c.data(), s.data());
    for (std::size_t i = 0; i < 32; ++i) {
      const double angle = position * frequencies[i];
      EXPECT_NEAR(c[i], 1.25 * std::cos(angle), 1e-7) << position;
      EXPECT_NEAR(s[i], 1.25 * std::sin(angle), 1e-7) << position;
    }
  }
}

// Otherwise the norm would scale layers wrongly.
TEST_F(Rows, NormMatchesDoublePrecision) {
  for (int n : kSizes) {
    const std::vector<float> x = Random(n), w = Random(n);
    std::vector<float> y(x.size());
    ref_.rms_norm(x.data(), w.data(), 1e-5f, n, y.data());
    double squares = 0.0;
    for (float v : x) squares += static_cast<double>(v) * v;
    const double factor = 1.0 / std::sqrt(squares / n + 1e-5f);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double wanted = x[i] * factor * w[i];
      EXPECT_NEAR(y[i], wanted, 1e-6 * std::fabs(wanted) + 1e-12);
    }
  }
}

}  // namespace
}  // namespace skein::kernels
