// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/packed_linear.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "kernels/cpu.h"
#include "kernels/linear/half.h"
#include "kernels/linear/pack_paths.h"
#include "kernels/linear/panel.h"

namespace skein::kernels {
namespace {

// Integer q' of the value q' * scale (+ minimum) at place k of column n of a cell.
int QuantisedValue(WeightFormat format, const QuantisedCell& cell, int k, int n) {
  int at = 0;
  while (kQuadOrder[at] != k % 4) ++at;
  const int byte = cell.quads[static_cast<std::size_t>(k / 4) * kRowBytes + static_cast<std::size_t>(4 * n + at)];
  if (format == WeightFormat::kW8) return byte - 128;
  const int nibble = (byte >> cell.shift) & 0xf;
  return format == WeightFormat::kW4 ? nibble - 8 : nibble;
}

PackFunction FastestPacking() {
#if defined(__x86_64__)
  if (Cpu().avx512) return PackAvx512;
  if (Cpu().avx2) return PackAvx2;
#endif
  return PackRef;
}

}  // namespace

WeightFormat PackedFormatOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return WeightFormat::kW4;
    case DType::kQ4_1:
      return WeightFormat::kW4Min;
    case DType::kQ8_0:
      return WeightFormat::kW8;
    case DType::kBF16:
      return WeightFormat::kBf16;
    case DType::kF16:
    case DType::kF32:
      return WeightFormat::kF32;
  }
  return WeightFormat::kF32;
}

std::size_t PackedLinear::PackedBytes(WeightFormat format, int outputs, const Cells& cells) {
  const auto panels = static_cast<std::size_t>((outputs + kPanelWidth - 1) / kPanelWidth);
  return panels * PanelBytes(format, cells.count());
}

Result<PackedLinear> PackedLinear::Allocate(WeightFormat format, int outputs, Cells cells) {
  SKEIN_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(PackedBytes(format, outputs, cells)));
  PackedLinear packed = Place(format, outputs, std::move(cells), buffer.data());
  packed.owned_ = std::move(buffer);
  return packed;
}

PackedLinear PackedLinear::Place(WeightFormat format, int outputs, Cells cells, std::byte* memory, std::size_t stride) {
  SKEIN_CHECK(outputs > 0);
  SKEIN_CHECK(cells.count() % 2 == 0);
  SKEIN_CHECK(reinterpret_cast<std::uintptr_t>(memory) % 64 == 0);
  PackedLinear packed;
  packed.memory_ = memory;
  packed.format_ = format;
  packed.outputs_ = outputs;
  packed.panel_bytes_ = PanelBytes(format, cells.count());
  packed.panel_stride_ = stride == 0 ? packed.panel_bytes_ : stride;
  packed.cells_ = std::move(cells);
  return packed;
}

void PackedLinear::PackPanel(int index, DType dtype, const std::array<const std::byte*, kPanelWidth>& rows) {
  SKEIN_CHECK(index >= 0 && index < panels());
  SKEIN_CHECK(format_ == WeightFormat::kF32 || PackedFormatOf(dtype) == format_);
  static const PackFunction pack = FastestPacking();
  PanelSource source{.format = format_,
                     .dtype = dtype,
                     .cells = cells_.cells.data(),
                     .cell_count = cells_.count(),
                     .first_column = cells_.first_column,
                     .row_columns = cells_.row_columns};
  std::copy(rows.begin(), rows.end(), source.rows);
  pack(source, memory_ + static_cast<std::size_t>(index) * panel_stride_);
}

void PackedLinear::DequantizeRow(int output, float* into) const {
  SKEIN_CHECK(output >= 0 && output < outputs_);
  const std::byte* base = panel(output / kPanelWidth);
  const int n = output % kPanelWidth;
  for (int c = 0; c < cells_.count(); ++c) {
    const Cell& cell = cells_.cells[static_cast<std::size_t>(c)];
    float* out = into + cell.begin;
    if (format_ == WeightFormat::kBf16 || format_ == WeightFormat::kF32) {
      const std::byte* unit = base + UnitBytes(format_) * static_cast<std::size_t>(c);
      for (int k = 0; k < cell.count; ++k) {
        out[k] = format_ == WeightFormat::kBf16
                     ? BfloatToFloat(reinterpret_cast<const std::uint16_t*>(unit)[(k / 2) * 64 + 2 * n + k % 2])
                     : reinterpret_cast<const float*>(unit)[k * kPanelWidth + n];
      }
      continue;
    }
    const QuantisedCell quantised = QuantisedCellOf(format_, base, c);
    const float column_scale = ColumnScalesOf(format_, base, cells_.count())[n];
    const float scale = HalfToFloat(quantised.scales[n]);
    const float minimum = quantised.minima == nullptr ? 0.0F : HalfToFloat(quantised.minima[n]);
    for (int k = 0; k < cell.count; ++k) {
      const auto q = static_cast<float>(QuantisedValue(format_, quantised, k, n));
      out[k] = std::fma(q, scale, minimum) * column_scale;
    }
  }
}

}  // namespace skein::kernels
