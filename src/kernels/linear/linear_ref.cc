// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/linear_ref.h"

#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/linear/cells.h"
#include "kernels/linear/half.h"
#include "kernels/linear/panel.h"

namespace skein::kernels {
namespace {

constexpr int kWidth = 32;  // columns of a panel

// Column n of one cell: 32 integers q' with value q' * scale (+ minimum).
struct QuantisedColumn {
  std::array<int, kCellWidth> q = {};
  float scale = 0;
  float minimum = 0;
  bool has_minimum = false;
};

QuantisedColumn ReadQuantised(const LinearTask& task, const std::byte* panel, int cell, int n) {
  const QuantisedCell from = QuantisedCellOf(task.format, panel, cell);
  QuantisedColumn column;
  for (int r = 0; r < 8; ++r) {
    for (int i = 0; i < 4; ++i) {
      const int byte = from.quads[static_cast<std::size_t>(r) * kRowBytes + static_cast<std::size_t>(4 * n + i)];
      const int nibble = (byte >> from.shift) & 0xf;
      column.q[static_cast<std::size_t>(4 * r + kQuadOrder[i])] =
          task.format == WeightFormat::kW8 ? byte - 128 : task.format == WeightFormat::kW4 ? nibble - 8 : nibble;
    }
  }
  column.scale = HalfToFloat(from.scales[n]);
  column.has_minimum = from.minima != nullptr;
  if (column.has_minimum) column.minimum = HalfToFloat(from.minima[n]);
  return column;
}

std::uint16_t StoredBf16(const std::byte* panel, int cell, int k, int n) {
  const auto* unit = reinterpret_cast<const std::uint16_t*>(panel + kBf16UnitBytes * static_cast<std::size_t>(cell));
  return unit[(k / 2) * 2 * kWidth + 2 * n + k % 2];
}

// Column n of one cell as fp32 weights. `round` makes a weight of a quantised column.
template <typename Round>
void ReadWeights(const LinearTask& task, const std::byte* panel, int cell, int n, Round round,
                 std::array<float, kCellWidth>& w) {
  if (task.format == WeightFormat::kF32) {
    const auto* unit = reinterpret_cast<const float*>(panel + kF32UnitBytes * static_cast<std::size_t>(cell));
    for (int k = 0; k < kCellWidth; ++k) w[static_cast<std::size_t>(k)] = unit[k * kWidth + n];
    return;
  }
  if (task.format == WeightFormat::kBf16) {
    for (int k = 0; k < kCellWidth; ++k) w[static_cast<std::size_t>(k)] = BfloatToFloat(StoredBf16(panel, cell, k, n));
    return;
  }
  const QuantisedColumn column = ReadQuantised(task, panel, cell, n);
  for (std::size_t k = 0; k < kCellWidth; ++k) w[k] = round(column, column.q[k]);
}

// One rounding: a product, or an FMA where there is a minimum. (Not an FMA with zero: that would lose a zero's sign.)
float ExactWeight(const QuantisedColumn& column, int q) {
  const auto value = static_cast<float>(q);
  return column.has_minimum ? std::fma(value, column.scale, column.minimum) : value * column.scale;
}

float Bf16PWeight(const QuantisedColumn& column, int q) {
  return BfloatToFloat(BfloatFromFloat(ExactWeight(column, q)));
}

float Bf16TWeight(const QuantisedColumn& column, int q) {
  // Exact in double: 4 or 8 bits times 11, plus 11 bits. So this is one fp16 FMA. (Without a minimum it is that of the
  // unsigned integer with -8 d or -128 d, which knows no negative zero: hence the sum.)
  const double value = static_cast<double>(q) * static_cast<double>(column.scale) +
                       (column.has_minimum ? static_cast<double>(column.minimum) : 0.0);
  return BfloatToFloat(Bf16TFromHalf(HalfFromDouble(value)));
}

// The loop over panels, rows and cells. `add_cell(panel, cell, n, row_begin, rows, sums)` adds one cell of column n to
// sums[row * 32], for rows from row_begin.
// `finish(panel, row, rows, tile)` comes after the column scales.
template <typename AddCell, typename Finish>
void ForPieces(const LinearTask& task, AddCell add_cell, Finish finish) {
  for (int index = task.panel_begin; index < task.panel_end; ++index) {
    const std::byte* panel = task.panels + task.panel_stride * static_cast<std::size_t>(index);
    for (int row = task.row_begin; row < task.row_end; row += kPieceRows) {
      const int rows = task.row_end - row < kPieceRows ? task.row_end - row : kPieceRows;
      std::array<float, kPieceRows * kWidth> tile = {};
      for (int cell = 0; cell < task.cells; ++cell) {
        for (int n = 0; n < kWidth; ++n) add_cell(panel, cell, n, row, rows, tile.data() + n);
      }
      if (IsQuantised(task.format)) {
        const float* column_scales = ColumnScalesOf(task.format, panel, task.cells);
        for (int i = 0; i < rows * kWidth; ++i) tile[static_cast<std::size_t>(i)] *= column_scales[i % kWidth];
      }
      finish(panel, row, rows, tile.data());
      task.take(task.context, index, row, rows, tile.data());
    }
  }
}
template <typename AddCell>
void ForPieces(const LinearTask& task, AddCell add_cell) {
  ForPieces(task, add_cell, [](const std::byte*, int, int, float*) {});
}

// Sum of a cell's weights of one column times int8 numbers stored in the order of quads.
std::int32_t IntegerSum(const QuantisedColumn& column, const std::int8_t* a) {
  std::int32_t sum = 0;
  for (int r = 0; r < 8; ++r) {
    for (int i = 0; i < 4; ++i) sum += column.q[static_cast<std::size_t>(4 * r + kQuadOrder[i])] * a[4 * r + i];
  }
  return sum;
}

const std::byte* RowOf(const LinearTask& task, int row) { return task.values + row * task.value_stride; }

}  // namespace

std::uint16_t Bf16TFromHalf(std::uint16_t half) {
  // (h + 4) >> 3 of the half's bits as a signed number, the sign kept, the exponent's bias changed from 15 to 127.
  // |h| < 0.5 by the packing, so that the biased exponent can be or-ed in.
  const int rounded = (static_cast<std::int16_t>(half) + 4) >> 3;
  return static_cast<std::uint16_t>((rounded & 0x87ff) | 0x3800);
}

void LinearRefInt8G32(const LinearTask& task) {
  const auto add_cell = [&task](const std::byte* panel, int cell, int n, int row_begin, int rows, float* sums) {
    const QuantisedColumn column = ReadQuantised(task, panel, cell, n);
    for (int row = 0; row < rows; ++row) {
      const auto* a = reinterpret_cast<const std::int8_t*>(RowOf(task, row_begin + row)) + cell * kCellWidth;
      const std::ptrdiff_t at = (row_begin + row) * task.scale_stride + cell;
      float& acc = sums[row * kWidth];
      acc = std::fma(static_cast<float>(IntegerSum(column, a)), task.scales[at] * column.scale, acc);
      if (column.has_minimum) acc = std::fma(column.minimum, task.scaled_sums[at], acc);
    }
  };
  const auto add_residuals = [&task](const std::byte* panel, int row_begin, int rows, float* tile) {
    const float* column_scales = ColumnScalesOf(task.format, panel, task.cells);
    for (int row = 0; row < rows; ++row) {
      for (int cell = 0; cell < task.cells; ++cell) {
        if (task.uneven[(row_begin + row) * task.uneven_stride + cell] == 0) continue;
        const float step = task.scales[(row_begin + row) * task.scale_stride + cell] * kResidualStep;
        const std::int8_t* a = task.residuals + (row_begin + row) * task.value_stride + cell * kCellWidth;
        for (int n = 0; n < kWidth; ++n) {
          const QuantisedColumn column = ReadQuantised(task, panel, cell, n);
          float& out = tile[row * kWidth + n];
          out = std::fma(static_cast<float>(IntegerSum(column, a)), step * (column.scale * column_scales[n]), out);
        }
      }
    }
  };
  ForPieces(task, add_cell, add_residuals);
}

void LinearRefBf16T(const LinearTask& task) {
  ForPieces(task, [&task](const std::byte* panel, int cell, int n, int row_begin, int rows, float* sums) {
    std::array<float, kCellWidth> w;
    ReadWeights(task, panel, cell, n, Bf16TWeight, w);
    for (int row = 0; row < rows; ++row) {
      const auto* a = reinterpret_cast<const std::uint16_t*>(RowOf(task, row_begin + row)) + cell * kCellWidth;
      float even = 0;
      float odd = 0;
      for (std::size_t k = 0; k < kCellWidth; k += 2) {
        even = std::fma(BfloatToFloat(a[k]), w[k], even);
        odd = std::fma(BfloatToFloat(a[k + 1]), w[k + 1], odd);
      }
      sums[row * kWidth] += even + odd;
    }
  });
}

void LinearRefBf16P(const LinearTask& task) {
  ForPieces(task, [&task](const std::byte* panel, int cell, int n, int row_begin, int rows, float* sums) {
    std::array<float, kCellWidth> w;
    ReadWeights(task, panel, cell, n, Bf16PWeight, w);
    for (int row = 0; row < rows; ++row) {
      const auto* a = reinterpret_cast<const std::uint16_t*>(RowOf(task, row_begin + row)) + cell * kCellWidth;
      float& acc = sums[row * kWidth];
      for (std::size_t k = 0; k < kCellWidth; k += 2) {
        acc = std::fma(BfloatToFloat(a[k + 1]), w[k + 1], acc);
        acc = std::fma(BfloatToFloat(a[k]), w[k], acc);
      }
    }
  });
}

void LinearRefExact(const LinearTask& task) {
  ForPieces(task, [&task](const std::byte* panel, int cell, int n, int row_begin, int rows, float* sums) {
    std::array<float, kCellWidth> w;
    ReadWeights(task, panel, cell, n, ExactWeight, w);
    for (int row = 0; row < rows; ++row) {
      const auto* a = reinterpret_cast<const float*>(RowOf(task, row_begin + row)) + cell * kCellWidth;
      float& acc = sums[row * kWidth];
      for (std::size_t k = 0; k < kCellWidth; ++k) acc = std::fma(a[k], w[k], acc);
    }
  });
}

}  // namespace skein::kernels
