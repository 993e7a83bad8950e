// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/pack_paths.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/linear/linear_testing.h"
#include "kernels/linear/panel.h"

namespace skein::kernels {
namespace {

using testing::FileMatrix;
using testing::RandomMatrix;

struct Way {
  const char* name;
  PackFunction pack;
};

std::vector<Way> FastWays() {
  std::vector<Way> ways;
#if defined(__x86_64__)
  if (Cpu().avx2) ways.push_back({"avx2", PackAvx2});
  if (Cpu().avx512) ways.push_back({"avx512", PackAvx512});
#endif
  return ways;
}

PanelSource SourceOf(const FileMatrix& matrix, WeightFormat format, const Cells& cells, int rows = kPackColumns) {
  PanelSource source{.format = format,
                     .dtype = matrix.dtype,
                     .cells = cells.cells.data(),
                     .cell_count = cells.count(),
                     .row_columns = cells.k};
  for (int n = 0; n < rows; ++n) source.rows[n] = matrix.row(n);
  return source;
}

Buffer PackedBy(PackFunction pack, const PanelSource& source) {
  Buffer buffer = Buffer::Allocate(PanelBytes(source.format, source.cell_count)).value();
  pack(source, buffer.data());
  return buffer;
}

void ExpectSameBytes(const PanelSource& source, const std::string& what) {
  const Buffer want = PackedBy(PackRef, source);
  for (const Way& way : FastWays()) {
    const Buffer got = PackedBy(way.pack, source);
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(got.data()[i], want.data()[i]) << way.name << " " << NameOf(source.format) << " " << what << " byte " << i;
    }
  }
}

const std::vector<std::pair<DType, WeightFormat>> kKinds = {
    {DType::kQ4_0, WeightFormat::kW4},   {DType::kQ4_1, WeightFormat::kW4Min}, {DType::kQ8_0, WeightFormat::kW8},
    {DType::kBF16, WeightFormat::kBf16}, {DType::kF32, WeightFormat::kF32},    {DType::kF16, WeightFormat::kF32},
    {DType::kBF16, WeightFormat::kF32},  {DType::kQ4_1, WeightFormat::kF32}};

// Would break: a model answers differently on another processor, and a packed cache of one is refused by the other.
TEST(Pack, EveryPathGivesTheSameBytes) {
  struct Shape {
    int k, width;
  };
  for (const auto& [dtype, format] : kKinds) {
    for (const Shape& shape : {Shape{576, 0}, Shape{32, 0}, Shape{96, 0}, Shape{96, 24}, Shape{240, 80}, Shape{1536, 64}, Shape{4160, 0}}) {
      const FileMatrix matrix = RandomMatrix(dtype, kPackColumns, shape.k, 17);
      const Cells cells = MakeCells(shape.k, shape.width);
      const std::string what = std::to_string(shape.k) + " by " + std::to_string(shape.width);
      ExpectSameBytes(SourceOf(matrix, format, cells), what);
      ExpectSameBytes(SourceOf(matrix, format, cells, 5), what + ", 5 rows");
      if (shape.width == 0) continue;
      Cells part;  // of the row: all but its first slice
      for (const Cell& cell : cells.cells) {
        if (cell.begin >= shape.width && cell.count > 0) part.cells.push_back({cell.begin - shape.width, cell.count});
      }
      if (part.cells.size() % 2 != 0) part.cells.push_back({shape.k - shape.width, 0});
      PanelSource source = SourceOf(matrix, format, part);
      source.first_column = shape.width;
      source.row_columns = shape.k;
      ExpectSameBytes(source, what + ", a part");
    }
  }
}

// Would break: scales that are zero, denormal, at a limit or no numbers are packed otherwise than the plain loops do it.
TEST(Pack, EveryScaleIsRoundedAlike) {
  constexpr int kK = 128;
  const Cells cells = MakeCells(kK, 0);
  std::mt19937 random(5);
  for (const auto& [dtype, format] : kKinds) {
    FileMatrix matrix = RandomMatrix(dtype, kPackColumns, kK, 3);
    for (int round = 0; round < 300; ++round) {
      for (int n = 0; n < kPackColumns; ++n) {
        // Of rows of one kind: any bits, of small exponents, zeros.
        const unsigned mask = random() % 4 == 0 ? 0xffff : random() % 3 == 0 ? 0x8fff : random() % 8 == 0 ? 0x8000 : 0xbfff;
        std::byte* row = matrix.bytes.data() + matrix.row_bytes * static_cast<std::size_t>(n);
        for (std::size_t at = 0; at + 2 <= matrix.row_bytes; at += IsQuantised(format) ? 2 : 6) {
          const auto bits = static_cast<std::uint16_t>(random() & mask);
          std::memcpy(row + at, &bits, sizeof bits);
        }
      }
      ExpectSameBytes(SourceOf(matrix, format, cells), "round " + std::to_string(round));
      if (HasFatalFailure()) return;
    }
  }
}

// Would break: vectors, which add in fp32, give a column of Q4_1 another power of two than the plain loops.
TEST(Pack, RoundingDoesNotCrossTheLimit) {
  for (int d = 1; d < 0x7c00; ++d) {
    const float scale = HalfToFloat(static_cast<std::uint16_t>(d));
    const double fifteen = 15 * static_cast<double>(scale);
    // Only where a minimum is near the difference can the sum be near a limit.
    for (int exponent = std::ilogb(fifteen) - 2; exponent <= 22; ++exponent) {
      const double limit = std::ldexp(kColumnMax, exponent);
      const std::uint16_t nearest = HalfFromDouble(limit - fifteen);
      for (int m = nearest - 1; m <= nearest + 1; ++m) {
        const float minimum = HalfToFloat(static_cast<std::uint16_t>(m));
        if (!std::isfinite(minimum)) continue;
        const float sum = minimum + 15.0F * scale;
        ASSERT_EQ(static_cast<double>(sum) > limit, static_cast<double>(minimum) + fifteen > limit) << minimum << " " << scale;
      }
    }
  }
}

}  // namespace
}  // namespace skein::kernels
