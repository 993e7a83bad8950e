// SPDX-License-Identifier: Apache-2.0
//
// Sizes of the formats: every reader and packer computes bytes from these.
#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <limits>

namespace skein {
namespace {

TEST(DType, NamesGoThereAndBack) {  // A wrong name would make `make-model --format` write another format.
  for (const char* name : {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0"}) {
    const std::optional<DType> type = DTypeFromName(name);
    ASSERT_TRUE(type.has_value()) << name;
    EXPECT_EQ(InfoOf(*type).name, name);
  }
  EXPECT_FALSE(DTypeFromName("Q5_K").has_value());
  EXPECT_FALSE(DTypeFromName("").has_value());
  EXPECT_FALSE(DTypeFromName("f32").has_value());
}

TEST(DType, RowBytesCountWholeBlocks) {  // A wrong size would read weights from the wrong place.
  EXPECT_EQ(RowBytes(DType::kF32, 3), 12u);
  EXPECT_EQ(RowBytes(DType::kF16, 3), 6u);
  EXPECT_EQ(RowBytes(DType::kBF16, 5), 10u);
  EXPECT_EQ(RowBytes(DType::kQ4_0, 64), 36u);
  EXPECT_EQ(RowBytes(DType::kQ4_1, 64), 40u);
  EXPECT_EQ(RowBytes(DType::kQ8_0, 64), 68u);
  EXPECT_EQ(RowBytes(DType::kQ8_0, 0), 0u);
}

TEST(DType, RowBytesRefusesWhatDoesNotFit) {  // A wrapped size would pass every later check of a hostile file.
  EXPECT_FALSE(RowBytes(DType::kQ4_0, 33).has_value());
  EXPECT_FALSE(RowBytes(DType::kF32, std::numeric_limits<std::uint64_t>::max()).has_value());
  EXPECT_FALSE(RowBytes(DType::kQ8_0, 0xffffffffffffffe0u).has_value());
}

}  // namespace
}  // namespace skein
