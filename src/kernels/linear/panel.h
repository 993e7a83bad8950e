// SPDX-License-Identifier: Apache-2.0
//
// Where things stand inside a panel (packed_linear.h says it in words), as constants and raw pointers. Included by
// files that are compiled for special instruction sets, so there is nothing here that the linker could share between
// files: constants and static functions only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/arithmetic.h"

namespace skein::kernels {

inline constexpr std::size_t kRowBytes = 128;         // 32 columns of four bytes
inline constexpr std::size_t kHalvesBytes = 64;       // 32 fp16 numbers
inline constexpr std::size_t kColumnScaleBytes = 128;  // 32 fp32 numbers

// Bytes of one cell of W8, BF16, F32, or of two cells of W4 and W4Min.
inline constexpr std::size_t kW4UnitBytes = 8 * kRowBytes + 2 * kHalvesBytes;
inline constexpr std::size_t kW4MinUnitBytes = 8 * kRowBytes + 4 * kHalvesBytes;
inline constexpr std::size_t kW8UnitBytes = 8 * kRowBytes + kHalvesBytes;
inline constexpr std::size_t kBf16UnitBytes = 16 * kRowBytes;
inline constexpr std::size_t kF32UnitBytes = 32 * kRowBytes;

static constexpr bool IsQuantised(WeightFormat format) {
  return format == WeightFormat::kW4 || format == WeightFormat::kW4Min || format == WeightFormat::kW8;
}

static constexpr std::size_t UnitBytes(WeightFormat format) {
  switch (format) {
    case WeightFormat::kW4:
      return kW4UnitBytes;
    case WeightFormat::kW4Min:
      return kW4MinUnitBytes;
    case WeightFormat::kW8:
      return kW8UnitBytes;
    case WeightFormat::kBf16:
      return kBf16UnitBytes;
    case WeightFormat::kF32:
      return kF32UnitBytes;
  }
  return 0;
}

static constexpr int CellsPerUnit(WeightFormat format) {
  return format == WeightFormat::kW4 || format == WeightFormat::kW4Min ? 2 : 1;
}

// Bytes of all cells of a panel: where the column scales of a quantised one begin. Requires: cells even.
static constexpr std::size_t CellsBytes(WeightFormat format, int cells) {
  return UnitBytes(format) * static_cast<std::size_t>(cells / CellsPerUnit(format));
}

static constexpr std::size_t PanelBytes(WeightFormat format, int cells) {
  return CellsBytes(format, cells) + (IsQuantised(format) ? kColumnScaleBytes : 0);
}

// Where byte i of a stored quad comes from: k = 4r + kQuadOrder[i].
inline constexpr int kQuadOrder[4] = {0, 2, 1, 3};

// What a kernel reads of one cell of a quantised panel.
struct QuantisedCell {
  const std::uint8_t* quads = nullptr;     // 8 rows of 128 bytes
  int shift = 0;                           // 4 for the high nibbles
  const std::uint16_t* scales = nullptr;   // fp16 [32]
  const std::uint16_t* minima = nullptr;   // fp16 [32]; W4Min only
};

static inline QuantisedCell QuantisedCellOf(WeightFormat format, const std::byte* panel, int cell) {
  const int per_unit = CellsPerUnit(format);
  const int place = cell % per_unit;
  const std::byte* unit = panel + UnitBytes(format) * static_cast<std::size_t>(cell / per_unit);
  QuantisedCell result;
  result.quads = reinterpret_cast<const std::uint8_t*>(unit);
  result.shift = 4 * place;
  const auto* halves = reinterpret_cast<const std::uint16_t*>(unit + 8 * kRowBytes);
  result.scales = halves + 32 * place;
  if (format == WeightFormat::kW4Min) result.minima = halves + 64 + 32 * place;
  return result;
}

static inline const float* ColumnScalesOf(WeightFormat format, const std::byte* panel, int cells) {
  return reinterpret_cast<const float*>(panel + CellsBytes(format, cells));
}

}  // namespace skein::kernels
