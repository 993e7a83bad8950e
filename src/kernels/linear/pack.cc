// SPDX-License-Identifier: Apache-2.0
//
// Packing in plain loops, from 32 rows as a file stores them to the bytes of a panel. One column of the panel (one row of W)
// after the other; a cell's values are taken out of the file's blocks, then written as quads.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/linear/half.h"
#include "kernels/linear/pack_paths.h"
#include "kernels/linear/packed_linear.h"
#include "kernels/linear/panel.h"

namespace skein::kernels {
namespace {

static_assert(std::endian::native == std::endian::little, "files and panels are little-endian");

constexpr int kGroup = 32;  // columns of a block of Q4_0, Q4_1, Q8_0

template <typename T>
T Load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

struct Block {
  double scale = 0;
  double minimum = 0;
  const std::uint8_t* values = nullptr;
};

std::size_t BlockBytes(WeightFormat format) {
  return format == WeightFormat::kW4 ? 18 : format == WeightFormat::kW4Min ? 20 : 34;
}

Block BlockOf(WeightFormat format, const std::byte* row, int group) {
  const std::byte* at = row + BlockBytes(format) * static_cast<std::size_t>(group);
  const bool has_minimum = format == WeightFormat::kW4Min;
  Block block;
  block.scale = static_cast<double>(HalfToFloat(Load<std::uint16_t>(at)));
  if (has_minimum) block.minimum = static_cast<double>(HalfToFloat(Load<std::uint16_t>(at + 2)));
  block.values = reinterpret_cast<const std::uint8_t*>(at + (has_minimum ? 4 : 2));
  return block;
}

// The 32 places of a cell as eight quads of bytes in stored order; places beyond the cell get what stands for zero
// (W4Min: 0, whose value is the minimum; activations are zero there). `first` is the cell's first column in the row.
void TakeQuads(WeightFormat format, const Block& block, const Cell& cell, int first, std::uint32_t quads[8]) {
  alignas(8) std::uint8_t values[kGroup];
  if (format == WeightFormat::kW8) {
    for (int i = 0; i < kGroup; i += 8) {
      const auto word = Load<std::uint64_t>(block.values + i) ^ 0x8080808080808080ULL;
      std::memcpy(values + i, &word, sizeof word);
    }
  } else {
    for (int i = 0; i < kGroup / 2; i += 8) {
      const auto word = Load<std::uint64_t>(block.values + i);
      const std::uint64_t low = word & 0x0f0f0f0f0f0f0f0fULL;
      const std::uint64_t high = (word >> 4) & 0x0f0f0f0f0f0f0f0fULL;
      std::memcpy(values + i, &low, sizeof low);
      std::memcpy(values + kGroup / 2 + i, &high, sizeof high);
    }
  }
  if (cell.count != kGroup) {
    const std::uint8_t filler = format == WeightFormat::kW8 ? 128 : format == WeightFormat::kW4 ? 8 : 0;
    std::memmove(values, values + first % kGroup, static_cast<std::size_t>(cell.count));
    std::memset(values + cell.count, filler, static_cast<std::size_t>(kGroup - cell.count));
  }
  for (int r = 0; r < 8; ++r) {
    const auto quad = Load<std::uint32_t>(values + 4 * r);
    quads[r] = (quad & 0xff0000ffU) | ((quad & 0xff00U) << 8) | ((quad & 0xff0000U) >> 8);
  }
}

void StoreHalf(std::byte* halves, int n, double value) {
  const std::uint16_t half = HalfFromDouble(value);
  std::memcpy(halves + 2 * n, &half, sizeof half);
}

// Value i of a row of any type, for what is widened to fp32.
float ValueAt(DType dtype, const std::byte* row, int i) {
  switch (dtype) {
    case DType::kF32:
      return Load<float>(row + 4 * static_cast<std::ptrdiff_t>(i));
    case DType::kF16:
      return HalfToFloat(Load<std::uint16_t>(row + 2 * static_cast<std::ptrdiff_t>(i)));
    case DType::kBF16:
      return BfloatToFloat(Load<std::uint16_t>(row + 2 * static_cast<std::ptrdiff_t>(i)));
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ8_0: {
      const WeightFormat format = PackedFormatOf(dtype);
      const Block block = BlockOf(format, row, i / kGroup);
      const int at = i % kGroup;
      if (format == WeightFormat::kW8) return static_cast<float>(static_cast<std::int8_t>(block.values[at]) * block.scale);
      const int nibble = (block.values[at % 16] >> (at < 16 ? 0 : 4)) & 0xf;
      return static_cast<float>((format == WeightFormat::kW4 ? nibble - 8 : nibble) * block.scale + block.minimum);
    }
  }
  return 0;
}

void PackQuantisedUnit(const PanelSource& source, int c, int n, double inverse, std::byte* panel) {
  const WeightFormat format = source.format;
  const int per_unit = CellsPerUnit(format);
  std::byte* unit = panel + UnitBytes(format) * static_cast<std::size_t>(c / per_unit);
  std::byte* halves = unit + 8 * kRowBytes;
  std::uint32_t packed[8] = {};
  for (int place = 0; place < per_unit; ++place) {
    const Cell& cell = source.cells[c + place];
    Block block;
    std::uint32_t quads[8] = {};
    if (cell.count > 0) {
      const int first = source.first_column + cell.begin;
      block = BlockOf(format, source.rows[n], first / kGroup);
      TakeQuads(format, block, cell, first, quads);
    }
    for (int r = 0; r < 8; ++r) packed[r] |= quads[r] << (4 * place);
    StoreHalf(halves + kHalvesBytes * static_cast<std::size_t>(place), n, block.scale * inverse);
    if (format == WeightFormat::kW4Min) {
      StoreHalf(halves + kHalvesBytes * static_cast<std::size_t>(2 + place), n, block.minimum * inverse);
    }
  }
  for (int r = 0; r < 8; ++r) {
    std::memcpy(unit + kRowBytes * static_cast<std::size_t>(r) + 4 * n, &packed[r], sizeof packed[r]);
  }
}

void PackF32Unit(const PanelSource& source, int c, int n, std::byte* panel) {
  const Cell& cell = source.cells[c];
  auto* unit = reinterpret_cast<float*>(panel + kF32UnitBytes * static_cast<std::size_t>(c)) + n;
  const int first = source.first_column + cell.begin;
  for (int k = 0; k < cell.count; ++k) unit[k * kPanelWidth] = ValueAt(source.dtype, source.rows[n], first + k);
}

void PackBf16Unit(const PanelSource& source, int c, int n, std::byte* panel) {
  const Cell& cell = source.cells[c];
  auto* unit = reinterpret_cast<std::uint16_t*>(panel + kBf16UnitBytes * static_cast<std::size_t>(c)) + 2 * n;
  const std::byte* row = source.rows[n] + 2 * static_cast<std::ptrdiff_t>(source.first_column + cell.begin);
  for (int k = 0; k < cell.count; ++k) unit[(k / 2) * 64 + k % 2] = Load<std::uint16_t>(row + 2 * k);
}

// The column's power of two: the smallest that brings every |value| below kColumnMax. A column of zeros has 0, so that
// its results are exact zeros in every arithmetic; one with a scale that is not finite has NaN.
float ColumnScale(WeightFormat format, const std::byte* row, int row_columns) {
  double largest = 0;
  for (int group = 0; group < (row_columns + kGroup - 1) / kGroup; ++group) {
    const Block block = BlockOf(format, row, group);
    double value = 0;
    if (format == WeightFormat::kW4Min) {
      value = std::max(std::abs(block.minimum), std::abs(block.minimum + 15 * block.scale));
      if (std::isnan(block.minimum + block.scale)) value = std::numeric_limits<double>::infinity();
    } else {
      value = (format == WeightFormat::kW4 ? 8 : 128) * std::abs(block.scale);
    }
    if (!(value <= std::numeric_limits<double>::max())) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, value);
  }
  if (largest == 0) return 0;
  int exponent = std::ilogb(largest);  // largest / 2^exponent lies in [1, 2)
  while (std::ldexp(largest, -exponent) > kColumnMax) ++exponent;
  return static_cast<float>(std::ldexp(1.0, exponent));
}

}  // namespace

void PackUnitOfColumnRef(const PanelSource& source, int cell, int n, double inverse, std::byte* into) {
  if (source.format == WeightFormat::kF32) return PackF32Unit(source, cell, n, into);
  if (source.format == WeightFormat::kBf16) return PackBf16Unit(source, cell, n, into);
  PackQuantisedUnit(source, cell, n, inverse, into);
}

void PackColumnRef(const PanelSource& source, int n, std::byte* into) {
  double inverse = 0;
  if (IsQuantised(source.format)) {
    const float scale = ColumnScale(source.format, source.rows[n], source.row_columns);
    std::memcpy(into + CellsBytes(source.format, source.cell_count) + 4 * n, &scale, sizeof scale);
    if (scale > 0) inverse = 1.0 / static_cast<double>(scale);
  }
  const int per_unit = CellsPerUnit(source.format);
  for (int c = 0; c < source.cell_count; c += per_unit) PackUnitOfColumnRef(source, c, n, inverse, into);
}

void PackRef(const PanelSource& source, std::byte* into) {
  for (int n = 0; n < kPackColumns; ++n) {
    if (source.rows[n] != nullptr) PackColumnRef(source, n, into);  // memory starts as zeros
  }
}

}  // namespace skein::kernels
