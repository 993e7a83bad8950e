// SPDX-License-Identifier: Apache-2.0
//
// Frames and readers against damaged bytes.
#include "base/wire.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace skein::wire {
namespace {

struct Inner {
  std::string name;
  std::vector<float> values;
  friend bool operator==(const Inner&, const Inner&) = default;
};
struct Outer {
  bool flag = false;
  std::int32_t number = 0;
  RequestId id;
  std::vector<Inner> inners;
  std::vector<std::pair<std::int32_t, float>> pairs;
  friend bool operator==(const Outer&, const Outer&) = default;
};
template <class Wire, Same<Inner> T>
void Fields(Wire& wire, T& value) {
  wire(value.name, value.values);
}
template <class Wire, Same<Outer> T>
void Fields(Wire& wire, T& value) {
  wire(value.flag, value.number, value.id, value.inners, value.pairs);
}

constexpr FrameKind kKind{0x54534554, 1, 7};

Outer Example() {
  return {.flag = true, .number = -5, .id = {9}, .inners = {{"a", {1, 2}}, {"", {}}}, .pairs = {{3, 0.5f}}};
}

// A wrong table would let damaged messages pass between hosts.
TEST(WireTest, Crc32cHasItsKnownValue) {
  const std::string text = "123456789";
  EXPECT_EQ(Crc32c(std::as_bytes(std::span(text))), 0xE3069283u);
  EXPECT_EQ(Crc32c({}), 0u);
}

// A field lost on the way would make two ranks compute different steps.
TEST(WireTest, WhatWasEncodedDecodesEqual) {
  const auto bytes = Encode(kKind, Example());
  const auto decoded = Decode<Outer>(kKind, bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(*decoded, Example());
}

// A peer that sends garbage would crash or exhaust the process.
TEST(WireTest, EveryDamageIsAnError) {
  const auto bytes = Encode(kKind, Example());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(Decode<Outer>(kKind, std::span(bytes).first(i)).ok()) << i;
    auto damaged = bytes;
    damaged[i] ^= std::byte{0x10};
    EXPECT_FALSE(Decode<Outer>(kKind, damaged).ok()) << i;
  }
  auto longer = bytes;
  longer.push_back({});
  EXPECT_FALSE(Decode<Outer>(kKind, longer).ok());
  EXPECT_FALSE(Decode<Outer>({kKind.magic, 2, kKind.kind}, bytes).ok());
  EXPECT_FALSE(Decode<Outer>({kKind.magic, 1, 8}, bytes).ok());
}

// A checksum protects from accidents, not from a hostile peer: bodies with a right checksum are read safely too.
TEST(WireTest, HostileBodiesAreErrorsOrValues) {
  std::minstd_rand random(1);
  Writer writer;
  writer(Example());
  for (int round = 0; round < 20000; ++round) {
    auto body = writer.bytes();
    for (std::uint64_t i = 0, changes = 1 + random() % 4; i < changes; ++i) {
      body[random() % body.size()] = static_cast<std::byte>(random() % 3 == 0 ? 255 : random() % 256);
    }
    body.resize(random() % 2 == 0 ? body.size() : random() % body.size());
    const auto decoded = Decode<Outer>(kKind, MakeFrame(kKind, body));
    if (decoded.ok()) {
      EXPECT_TRUE(Decode<Outer>(kKind, Encode(kKind, *decoded)).ok());
    }
  }
}

// A count of 2^60 would be allocated before anyone notices that the bytes are missing.
TEST(WireTest, CountsAreComparedWithTheBytesThatRemain) {
  Writer writer;
  writer(std::uint64_t{1} << 60, std::uint64_t{0});
  Reader reader(writer.bytes());
  std::vector<Inner> inners;
  reader(inners);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(inners.capacity(), 0u);
}

}  // namespace
}  // namespace skein::wire
