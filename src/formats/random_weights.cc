// SPDX-License-Identifier: Apache-2.0
#include "formats/random_weights.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace skein::formats {
namespace {

// An fp16 of the same value, for positive normal values (scales); rounds to nearest, ties to even.
std::uint16_t HalfBits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0xfff + ((bits >> 13) & 1);
  const std::int32_t exponent = static_cast<std::int32_t>(rounded >> 23 & 0xff) - 127 + 15;
  if (exponent <= 0) return 0;
  return static_cast<std::uint16_t>((exponent << 10) | (rounded >> 13 & 0x3ff));
}

std::uint16_t SignedHalfBits(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  return static_cast<std::uint16_t>(sign | HalfBits(std::fabs(value)));
}

std::uint16_t BrainBits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Between 0.75 and 1.25 of `scale`, from 8 random bits.
float Varied(float scale, std::uint64_t bits) {
  return scale * (0.75f + 0.5f * static_cast<float>(bits & 0xff) * (1.0f / 255));
}

// Sixteen nibbles in which 0 became 8: the values 1 … 15 have mean 8, so that blocks have mean zero.
std::uint64_t CentredNibbles(std::uint64_t x) {
  constexpr std::uint64_t kLowBits = 0x1111111111111111u;
  const std::uint64_t zeros = ~(x | x >> 1 | x >> 2 | x >> 3) & kLowBits;
  return x | zeros << 3;
}

// Bytes as int8 in which -128 became 0.
std::uint64_t CentredBytes(std::uint64_t x) {
  constexpr std::uint64_t kHigh = 0x8080808080808080u;
  constexpr std::uint64_t kRest = 0x7f7f7f7f7f7f7f7fu;
  const std::uint64_t low_is_zero = ~((x & kRest) + kRest) & kHigh;  // the high bit of each byte whose rest is 0
  return x & ~(low_is_zero & x);
}

// Deviation of the integers of a block: 1 … 15 around 8 with 8 twice as likely, and -127 … 127.
constexpr float kNibbleDeviation = 4.1833f;
constexpr float kByteDeviation = 73.6f;

void FillNibbles(bool with_minimum, std::uint64_t seed, std::uint64_t first, float deviation,
                 std::span<std::byte> into) {
  const std::size_t head = with_minimum ? 4 : 2;
  const std::size_t block_bytes = head + 16;
  for (std::size_t place = 0; place < into.size(); place += block_bytes, ++first) {
    const std::array<std::uint64_t, 2> nibbles = {CentredNibbles(MixedBits(seed, 2 * first)),
                                                  CentredNibbles(MixedBits(seed, 2 * first + 1))};
    const float scale = Varied(deviation / kNibbleDeviation, nibbles[0] >> 8 ^ nibbles[1] >> 24);
    std::array<std::uint16_t, 2> scales = {HalfBits(scale), 0};
    // The exact product with the rounded scale keeps the block's mean at zero: -8 times a half is a half.
    scales[1] = static_cast<std::uint16_t>((scales[0] + (3u << 10)) | 0x8000u);
    std::memcpy(into.data() + place, scales.data(), head);
    std::memcpy(into.data() + place + head, nibbles.data(), sizeof(nibbles));
  }
}

void FillBytes(std::uint64_t seed, std::uint64_t first, float deviation, std::span<std::byte> into) {
  constexpr std::size_t kBlockBytes = 34;
  for (std::size_t place = 0; place < into.size(); place += kBlockBytes, ++first) {
    std::array<std::uint64_t, 4> values;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = CentredBytes(MixedBits(seed, 4 * first + i));
    const std::uint16_t scale = HalfBits(Varied(deviation / kByteDeviation, values[0] >> 8 ^ values[1] >> 24));
    std::memcpy(into.data() + place, &scale, sizeof(scale));
    std::memcpy(into.data() + place + sizeof(scale), values.data(), sizeof(values));
  }
}

// Plain formats: evenly distributed values of 16 bits each, four from one mixing.
template <typename T, typename Encode>
void FillPlain(std::uint64_t seed, std::uint64_t first, float deviation, std::span<std::byte> into,
               const Encode& encode) {
  const float unit = deviation * std::sqrt(3.0f) / 32768;
  for (std::size_t place = 0; place < into.size(); place += sizeof(T), ++first) {
    const std::uint64_t bits = MixedBits(seed, first / 4) >> (first % 4 * 16);
    const T value = encode((static_cast<float>(bits & 0xffff) - 32767.5f) * unit);
    std::memcpy(into.data() + place, &value, sizeof(value));
  }
}

}  // namespace

void FillRandomBlocks(DType dtype, std::uint64_t seed, std::uint64_t first_block, float deviation,
                      std::span<std::byte> into) {
  SKEIN_CHECK(into.size() % static_cast<std::size_t>(InfoOf(dtype).block_bytes) == 0);
  switch (dtype) {
    case DType::kQ4_0:
      return FillNibbles(/*with_minimum=*/false, seed, first_block, deviation, into);
    case DType::kQ4_1:
      return FillNibbles(/*with_minimum=*/true, seed, first_block, deviation, into);
    case DType::kQ8_0:
      return FillBytes(seed, first_block, deviation, into);
    case DType::kF32:
      return FillPlain<float>(seed, first_block, deviation, into, [](float x) { return x; });
    case DType::kF16:
      return FillPlain<std::uint16_t>(seed, first_block, deviation, into, SignedHalfBits);
    case DType::kBF16:
      return FillPlain<std::uint16_t>(seed, first_block, deviation, into, BrainBits);
  }
}

}  // namespace skein::formats
