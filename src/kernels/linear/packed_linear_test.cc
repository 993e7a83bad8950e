// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/packed_linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/linear/linear_testing.h"
#include "kernels/linear/panel.h"

namespace skein::kernels {
namespace {

using testing::FileMatrix;
using testing::Pack;
using testing::RandomMatrix;

// The value of a row's element by the definition of the file's type.
double FileValue(const FileMatrix& matrix, int output, int i) {
  const std::byte* row = matrix.row(output);
  const auto half = [](const std::byte* at) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    return static_cast<double>(HalfToFloat(bits));
  };
  const int group = i / 32;
  const int at = i % 32;
  const auto nibble = [at](const std::byte* values) {
    return static_cast<int>(at < 16 ? values[at] & std::byte{15} : values[at - 16] >> 4);
  };
  switch (matrix.dtype) {
    case DType::kQ4_0:
      return (nibble(row + 18 * group + 2) - 8) * half(row + 18 * group);
    case DType::kQ4_1:
      return nibble(row + 20 * group + 4) * half(row + 20 * group) + half(row + 20 * group + 2);
    case DType::kQ8_0:
      return static_cast<std::int8_t>(row[34 * group + 2 + at]) * half(row + 34 * group);
    case DType::kBF16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, row + 2 * i, sizeof bits);
      return static_cast<double>(BfloatToFloat(bits));
    }
    case DType::kF16:
      return half(row + 2 * i);
    case DType::kF32: {
      float value = 0;
      std::memcpy(&value, row + 4 * i, sizeof value);
      return static_cast<double>(value);
    }
  }
  return 0;
}

// Would break: a model answers from weights that are not those of its file.
TEST(PackedLinear, GivesBackTheFilesValues) {
  struct Case {
    int k, width, outputs;
  };
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    for (const Case& c : {Case{576, 0, 70}, Case{96, 24, 33}, Case{160, 80, 3}, Case{32, 0, 1}}) {
      const FileMatrix matrix = RandomMatrix(dtype, c.outputs, c.k, 7);
      const PackedLinear packed = Pack(matrix, PackedFormatOf(dtype), c.outputs, MakeCells(c.k, c.width));
      std::vector<float> row(static_cast<std::size_t>(c.k));
      for (int output = 0; output < c.outputs; ++output) {
        packed.DequantizeRow(output, row.data());
        for (int i = 0; i < c.k; ++i) {
          const double want = FileValue(matrix, output, i);
          ASSERT_NEAR(static_cast<double>(row[static_cast<std::size_t>(i)]), want, std::abs(want) * 1e-6 + 1e-9)
              << NameOf(packed.format()) << " row " << output << " column " << i;
        }
      }
    }
  }
}

// Would break: fp16 sums in the tile kernels leave the range in which their rounding is right.
TEST(PackedLinear, ColumnsAreScaledToOneRange) {
  for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    const FileMatrix matrix = RandomMatrix(dtype, 64, 576, 8);
    const PackedLinear packed = Pack(matrix, PackedFormatOf(dtype), 64, MakeCells(576, 0));
    std::vector<float> row(576);
    for (int output = 0; output < 64; ++output) {
      const float scale = ColumnScalesOf(packed.format(), packed.panel(output / 32), packed.cells().count())[output % 32];
      EXPECT_EQ(std::exp2(std::round(std::log2(scale))), scale);
      packed.DequantizeRow(output, row.data());
      float largest = 0;
      for (const float value : row) largest = std::max(largest, std::abs(value) / scale);
      EXPECT_LE(largest, 0.468F);
      EXPECT_GT(largest, 0.16F);
    }
  }
}

// Would break: a row of zeros adds a little of the input, or a broken scale passes for a number.
TEST(PackedLinear, ZeroColumnsAreZeroAndBrokenOnesNaN) {
  FileMatrix matrix = RandomMatrix(DType::kQ4_1, 32, 64, 9);
  std::fill(matrix.bytes.begin(), matrix.bytes.begin() + static_cast<std::ptrdiff_t>(matrix.row_bytes), std::byte{0});
  const std::uint16_t infinite = 0x7c00;
  std::memcpy(matrix.bytes.data() + matrix.row_bytes + 20, &infinite, sizeof infinite);
  const PackedLinear packed = Pack(matrix, WeightFormat::kW4Min, 32, MakeCells(64, 0));
  const float* scales = ColumnScalesOf(WeightFormat::kW4Min, packed.panel(0), 2);
  EXPECT_EQ(scales[0], 0.0F);
  EXPECT_TRUE(std::isnan(scales[1]));
}

// Would break: quantised weights under --exact lose bits that their file has.
TEST(PackedLinear, WidensAnyTypeToF32) {
  const FileMatrix matrix = RandomMatrix(DType::kQ8_0, 40, 96, 10);
  const PackedLinear packed = Pack(matrix, WeightFormat::kF32, 40, MakeCells(96, 0));
  std::vector<float> row(96);
  packed.DequantizeRow(39, row.data());
  for (int i = 0; i < 96; ++i) EXPECT_EQ(static_cast<double>(row[static_cast<std::size_t>(i)]), FileValue(matrix, 39, i));
}

// Would break: every stored scale, since packing rounds through these.
TEST(Half, RoundTripsAndRoundsToEven) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = HalfToFloat(half);
    if (std::isnan(value)) continue;
    ASSERT_EQ(HalfFromDouble(static_cast<double>(value)), half);
  }
  EXPECT_EQ(HalfFromDouble(1.0 + 1.0 / 2048), 0x3c00);
  EXPECT_EQ(HalfFromDouble(1.0 + 3.0 / 2048), 0x3c02);
  EXPECT_EQ(HalfFromDouble(1.0 + 1.0 / 2048 + 1e-12), 0x3c01);
  EXPECT_EQ(HalfFromDouble(std::ldexp(1.0, -25)), 0x0000);
  EXPECT_EQ(HalfFromDouble(std::ldexp(1.0001, -25)), 0x0001);
  EXPECT_EQ(HalfFromDouble(65519.9), 0x7bff);
  EXPECT_EQ(HalfFromDouble(65520.0), 0x7c00);
}

}  // namespace
}  // namespace skein::kernels
