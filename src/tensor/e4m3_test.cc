// SPDX-License-Identifier: Apache-2.0
#include "tensor/e4m3.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace skein {
namespace {

// What the specification says a code is.
double Value(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double magnitude = exponent == 0 ? mantissa * std::ldexp(1, -9) : (8 + mantissa) * std::ldexp(1, exponent - 10);
  return code >= 0x80 ? -magnitude : magnitude;
}

// Stored keys would be other numbers than those written.
TEST(E4M3Test, EveryCodeIsItsNumberAndComesBack) {
  for (int code = 0; code < 256; ++code) {
    const float value = FloatFromE4M3(static_cast<std::uint8_t>(code));
    if ((code & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(static_cast<double>(value), Value(code));
    }
    EXPECT_EQ(E4M3FromFloat(value), code);
  }
  EXPECT_EQ(FloatFromE4M3(0x7e), kE4M3Max);
  EXPECT_TRUE(std::signbit(FloatFromE4M3(0x80)));
}

// Rounding would lean to one side, and vector code that rounds rightly would differ.
TEST(E4M3Test, RoundsToTheNearestAndTiesToEven) {
  for (int code = 0; code < 0x7e; ++code) {
    const double low = Value(code), high = Value(code + 1), middle = (low + high) / 2;
    const auto expect = [&](float x, int wanted) {
      EXPECT_EQ(E4M3FromFloat(x), wanted) << x;
      EXPECT_EQ(E4M3FromFloat(-x), wanted | 0x80) << x;
    };
    const auto exact = static_cast<float>(middle);
    expect(exact, code % 2 == 0 ? code : code + 1);
    expect(std::nextafter(exact, 0.0f), code);
    expect(std::nextafter(exact, 1e9f), code + 1);
    expect(std::nextafter(static_cast<float>(high), 0.0f), code + 1);
  }
}

// One outlier would become an infinity or a NaN, and everything that attends to it noise.
TEST(E4M3Test, SaturatesAndKeepsNaN) {
  for (const float large : {448.0f, 448.1f, 464.0f, 480.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(E4M3FromFloat(large), 0x7e);
    EXPECT_EQ(E4M3FromFloat(-large), 0xfe);
  }
  for (const float small : {0.0f, 1e-45f, std::numeric_limits<float>::min(), 0x1p-11f, 0x1p-10f}) EXPECT_EQ(E4M3FromFloat(small), 0);
  EXPECT_EQ(E4M3FromFloat(0x1.8p-10f), 1);
  EXPECT_EQ(E4M3FromFloat(-0.0f), 0x80);
  EXPECT_EQ(E4M3FromFloat(std::numeric_limits<float>::quiet_NaN()) & 0x7f, 0x7f);
}

}  // namespace
}  // namespace skein
