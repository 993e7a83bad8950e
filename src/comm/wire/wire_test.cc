// SPDX-License-Identifier: Apache-2.0
//
// If two kernel paths encoded or summed differently, hosts of different processors would disagree about a token.
#include "comm/wire/wire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "comm/wire/wire_paths.h"
#include "kernels/cpu.h"

namespace skein::comm {
namespace {

constexpr WireType kTypes[] = {WireType::kFp32, WireType::kBf16, WireType::kInt8};
constexpr int kSizes[] = {1, 15, 16, 17, 63, 64, 65, 100, 128, 191, 576, 577};

std::vector<std::pair<const char*, const WireKernels*>> Paths() {
  std::vector<std::pair<const char*, const WireKernels*>> paths;
  const kernels::CpuFeatures& cpu = kernels::Cpu();
  if (cpu.avx2) paths.emplace_back("avx2", &WireAvx2());
  if (cpu.avx512) paths.emplace_back("avx512", &WireAvx512());
  if (cpu.avx512_bf16) paths.emplace_back("avx512_bf16", &WireAvx512Bf16());
  return paths;
}

std::vector<float> Values(int n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& value : x) value = normal(random);
  if (seed % 5 == 1) std::fill(x.begin(), x.begin() + n / 2, 0.0f);
  if (seed % 5 == 2) x[static_cast<std::size_t>(n / 2)] = 1e30f;
  return x;
}

std::vector<std::byte> Encoded(const WireKernels& kernels, WireType type, const std::vector<float>& x) {
  const WireLayout layout{type, static_cast<int>(x.size())};
  std::vector<std::byte> bytes(layout.RowBytes() + kWireSlack, std::byte{0xff});
  kernels.encode(type, x.data(), layout.columns, bytes.data());
  return bytes;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

TEST(Wire, PathsEncodeAndDecodeTheSameBits) {
  for (const auto& [name, kernels] : Paths()) {
    for (const WireType type : kTypes) {
      for (const int n : kSizes) {
        for (unsigned seed = 0; seed < 5; ++seed) {
          SCOPED_TRACE(testing::Message() << name << " " << NameOf(type) << " " << n << " seed " << seed);
          const std::vector<float> x = Values(n, seed);
          const std::size_t bytes = WireLayout{type, n}.RowBytes();
          const auto wanted = Encoded(WireRef(), type, x), found = Encoded(*kernels, type, x);
          ASSERT_EQ(std::memcmp(wanted.data(), found.data(), bytes), 0);
          for (const bool add : {false, true}) {
            std::vector<float> a = Values(n, 9), b = a;
            WireRef().decode(type, wanted.data(), n, add, a.data());
            kernels->decode(type, wanted.data(), n, add, b.data());
            ASSERT_TRUE(SameBits(a, b)) << "add " << add;
          }
        }
      }
    }
  }
}

TEST(Wire, PathsSumTheSameBits) {
  const std::vector<std::vector<int>> maps = {{0, 1}, {0, 2}, {0, 7}, {0, 1, 2}, {0, 2, 4}, {0, 3, 4}, {0, 1, 3, 4, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7, 8}};
  for (const auto& [name, kernels] : Paths()) {
    for (const auto& begin : maps) {
      const int hosts = static_cast<int>(begin.size()) - 1;
      for (const WireType inner : kTypes) {
        for (const WireType outer : kTypes) {
          for (const int n : {1, 63, 64, 130}) {
            std::vector<std::vector<std::byte>> contributions;
            std::vector<const std::byte*> pointers;
            for (int host = 0; host < hosts; ++host) {
              const int ranks = begin[static_cast<std::size_t>(host) + 1] - begin[static_cast<std::size_t>(host)];
              for (int i = 0; i < ranks; ++i) {
                const auto seed = static_cast<unsigned>(contributions.size() * 5);
                contributions.push_back(Encoded(WireRef(), hosts > 1 && ranks == 1 ? outer : inner, Values(n, seed)));
              }
            }
            for (const auto& bytes : contributions) pointers.push_back(bytes.data());
            const Sources sources = {pointers.data(), begin.data(), hosts};
            SCOPED_TRACE(testing::Message() << name << " " << hosts << " hosts " << NameOf(inner) << " " << NameOf(outer) << " " << n);
            std::vector<float> a(static_cast<std::size_t>(n)), b = a;
            WireRef().sum(sources, {inner, outer}, n, a.data());
            kernels->sum(sources, {inner, outer}, n, b.data());
            ASSERT_TRUE(SameBits(a, b));
            for (const bool add : {false, true}) {
              a = b = Values(n, 3);
              WireRef().combine(sources, {inner, outer}, n, add, a.data());
              kernels->combine(sources, {inner, outer}, n, add, b.data());
              ASSERT_TRUE(SameBits(a, b)) << "combine, add " << add;
            }
          }
        }
      }
    }
  }
}

TEST(Wire, RoundingErrorIsWhatTheTypesPromise) {
  const std::vector<float> x = Values(640, 0);
  for (const WireType type : kTypes) {
    const auto bytes = Encoded(WireRef(), type, x);
    std::vector<float> y(x.size());
    WireRef().decode(type, bytes.data(), 640, false, y.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      float largest = 0;
      for (std::size_t j = i / 64 * 64; j < i / 64 * 64 + 64; ++j) largest = std::max(largest, std::fabs(x[j]));
      const float bound = type == WireType::kFp32 ? 0.0f : type == WireType::kBf16 ? std::fabs(x[i]) / 256 : largest / 253;
      ASSERT_LE(std::fabs(x[i] - y[i]), bound) << NameOf(type) << " " << i;
    }
  }
}

TEST(Wire, WhatIsNotFiniteStaysSo) {
  // An overflow in a layer must arrive as one, not as a plausible number.
  std::vector<std::pair<const char*, const WireKernels*>> paths = Paths();
  paths.emplace_back("ref", &WireRef());
  for (const auto& [name, kernels] : paths) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      for (const int n : {70, 128}) {
        std::vector<float> x = Values(n, 0), y(x.size());
        x[66] = bad;
        const auto bytes = Encoded(*kernels, WireType::kInt8, x);
        kernels->decode(WireType::kInt8, bytes.data(), n, false, y.data());
        for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isnan(y[i]), i >= 64) << name << " " << i;
      }
    }
  }
}

TEST(Wire, OffsetsFollowUnitsOverRows) {
  const WireLayout layout{WireType::kInt8, 100};  // units of 64 and 36 columns: 68 + 40 bytes
  EXPECT_EQ(layout.RowBytes(), 108U);
  EXPECT_EQ(layout.Offset(1), 68U);
  EXPECT_EQ(layout.Offset(2), 108U);
  EXPECT_EQ(layout.Offset(5), 2 * 108U + 68U);
}

}  // namespace
}  // namespace skein::comm
