// SPDX-License-Identifier: Apache-2.0
//
// Models that are made and not trained: they load, repeat, and hold numbers of the promised size.
#include "formats/make_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <set>

#include "formats/model_file.h"
#include "formats/random_weights.h"
#include "formats/synthetic_vocabulary.h"
#include "formats/test_files.h"

namespace skein::formats {
namespace {

using testing::TemporaryFolder;

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

float FromHalf(std::uint16_t bits) {
  const float value = std::ldexp(static_cast<float>(bits & 0x3ff) / 1024 + ((bits & 0x7c00) != 0 ? 1.0f : 0.0f),
                                 std::max(1, bits >> 10 & 0x1f) - 15);
  return (bits & 0x8000) != 0 ? -value : value;
}

// The values of blocks, by the layouts in tensor/dtype.cc.
std::vector<float> Values(DType dtype, const std::vector<std::byte>& bytes) {
  std::vector<float> values;
  const std::size_t block = static_cast<std::size_t>(InfoOf(dtype).block_bytes);
  for (std::size_t place = 0; place < bytes.size(); place += block) {
    const auto half = [&](std::size_t at) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, &bytes[place + at], sizeof(bits));
      return bits;
    };
    const auto byte = [&](std::size_t at) { return static_cast<int>(bytes[place + at]); };
    if (dtype == DType::kF32) {
      float value = 0;
      std::memcpy(&value, &bytes[place], sizeof(value));
      values.push_back(value);
    } else if (dtype == DType::kF16) {
      values.push_back(FromHalf(half(0)));
    } else if (dtype == DType::kBF16) {
      values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(half(0)) << 16));
    } else if (dtype == DType::kQ8_0) {
      for (std::size_t i = 0; i < 32; ++i) {
        values.push_back(FromHalf(half(0)) * static_cast<float>(static_cast<std::int8_t>(byte(2 + i))));
      }
    } else {
      const std::size_t head = dtype == DType::kQ4_1 ? 4 : 2;
      const float lowest = dtype == DType::kQ4_1 ? FromHalf(half(2)) : -8 * FromHalf(half(0));
      for (std::size_t i = 0; i < 32; ++i) {
        const int nibble = byte(head + i % 16) >> (i < 16 ? 0 : 4) & 15;
        values.push_back(FromHalf(half(0)) * static_cast<float>(nibble) + lowest);
      }
    }
  }
  return values;
}

TEST(RandomWeights, HaveMeanZeroAndTheDeviationAskedFor) {  // Logits would grow from layer to layer, to infinity.
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    constexpr float kDeviation = 1.0f / 64;
    std::vector<std::byte> bytes(static_cast<std::size_t>(InfoOf(dtype).block_bytes) * (1 << 14));
    FillRandomBlocks(dtype, /*seed=*/7, /*first_block=*/0, kDeviation, bytes);
    const std::vector<float> values = Values(dtype, bytes);
    double sum = 0;
    double squares = 0;
    for (const float value : values) {
      sum += value;
      squares += value * value;
    }
    const double count = static_cast<double>(values.size());
    EXPECT_NEAR(sum / count / kDeviation, 0, 0.03) << InfoOf(dtype).name;
    EXPECT_NEAR(std::sqrt(squares / count) / kDeviation, 1, 0.04) << InfoOf(dtype).name;
  }
}

TEST(RandomWeights, DoNotDependOnThePieces) {  // Another piece size would make another model of one seed.
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kQ4_1, DType::kQ8_0}) {
    const std::size_t block = static_cast<std::size_t>(InfoOf(dtype).block_bytes);
    std::vector<std::byte> whole(block * 50);
    FillRandomBlocks(dtype, 7, 0, 0.1f, whole);
    std::vector<std::byte> part(block * 13);
    FillRandomBlocks(dtype, 7, 21, 0.1f, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(21 * block)));
    FillRandomBlocks(dtype, 8, 21, 0.1f, part);
    EXPECT_FALSE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(21 * block)));
  }
}

TEST(SyntheticVocabulary, EveryMergeMakesAPiece) {  // Readers refuse a vocabulary whose merges lead nowhere.
  const SyntheticVocabulary made = MakeVocabulary(128'256);
  ASSERT_EQ(made.tokens.size(), 128'256u);
  EXPECT_EQ(made.token_types.size(), made.tokens.size());
  const std::set<std::string> pieces(made.tokens.begin(), made.tokens.end());
  EXPECT_EQ(pieces.size(), made.tokens.size());
  for (const std::string& merge : made.merges) {
    const std::size_t space = merge.find(' ');
    const std::string left = merge.substr(0, space);
    const std::string right = merge.substr(space + 1);
    ASSERT_TRUE(pieces.contains(left) && pieces.contains(right) && pieces.contains(left + right)) << merge;
  }
}

TEST(MakeModel, LoadsAndRepeats) {  // A measurement must be repeatable on the same bytes.
  TemporaryFolder folder;
  for (const DType format : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    MakeModelOptions options{.shape = "tiny", .format = format, .seed = 5, .path = folder / "a.gguf", .progress = {}};
    std::uint64_t last = 0;
    options.progress = [&](std::uint64_t done, std::uint64_t all) {
      EXPECT_GE(done, last);
      EXPECT_LE(done, all);
      last = done;
    };
    ASSERT_TRUE(MakeModel(options).ok());
    EXPECT_EQ(last, std::filesystem::file_size(options.path));
    const auto opened = ModelFile::Open(options.path);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ((*opened)->config().weight_format, InfoOf(format).name);
    EXPECT_EQ((*opened)->config().layers, 2);
    EXPECT_TRUE((*opened)->config().tied_embedding);
    const std::string first = Contents(options.path);
    options.path = folder / "b.gguf";
    last = 0;
    ASSERT_TRUE(MakeModel(options).ok());
    EXPECT_EQ(Contents(options.path), first);
    options.seed = 6;
    last = 0;
    ASSERT_TRUE(MakeModel(options).ok());
    EXPECT_NE(Contents(options.path), first);
  }
}

TEST(MakeModel, SaysWhatIsWrong) {
  TemporaryFolder folder;
  const Status shape =
      MakeModel({.shape = "9b", .format = DType::kF32, .seed = 1, .path = folder / "x", .progress = {}});
  EXPECT_EQ(shape.code(), Code::kInvalidArgument);
  EXPECT_NE(shape.message().find("135m"), std::string::npos);
  const Status place =
      MakeModel({.shape = "tiny", .format = DType::kF32, .seed = 1, .path = folder / "no/such/x", .progress = {}});
  EXPECT_FALSE(place.ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace skein::formats
