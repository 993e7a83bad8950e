// SPDX-License-Identifier: Apache-2.0
//
// int8g32 by vpdpbusd: unsigned weights from the panel times signed activations, broadcast four at a time. The offset of
// the weights (8 or 128) is taken out in advance: a cell's integer sum starts at -offset * sum of its activations.
// A block is up to 8 rows by 32 columns: its integer sums stay in registers, its fp32 sums partly on the stack, which a cell
// touches once. That costs less than unpacking the weights for 6 rows and again for the rest.
#include <immintrin.h>

#include "kernels/linear/linear_vector.h"
#include "kernels/linear/panel.h"

namespace skein::kernels {
namespace {

constexpr int kWidth = 32;
constexpr int kCell = 32;
constexpr int kBlockRows = 8;
constexpr std::size_t kPrefetchBytes = 8192;

// Whether to ask for the panel ahead of reading it. Where the processor's own prefetching keeps up (Zen 4, DRAM, one row: 47 to
// 62 GB/s of 4-bit weights without, 39 with) only for 3 or 4 rows, because the loop over 4 bits is then long enough for it
// to fall behind (31 without, 36 with). Elsewhere always (Emerald Rapids, one row: 24 GB/s without, 34 with; 4 rows of 8 bits: 22
// and 38).
constexpr bool AsksAhead(WeightFormat format, int rows) { return format != WeightFormat::kW8 && (rows == 3 || rows == 4); }

// Pointers of a register block, advanced cell by cell.
struct Rows {
  const std::byte* values;
  std::ptrdiff_t value_stride;
  const float* scales;
  const float* scaled_sums;
  const std::int32_t* sums;
  std::ptrdiff_t scale_stride;
};

// One cell: integer sums, then one FMA (two with a minimum) into `acc`.
template <WeightFormat format, int place, int rows>
inline __attribute__((always_inline)) void AddCell(const std::byte* unit, const Rows& in, int cell, __m512 (&acc)[rows][2]) {
  constexpr int kOffset = format == WeightFormat::kW8 ? 128 : format == WeightFormat::kW4 ? 8 : 0;
  const __m512i low_nibbles = _mm512_set1_epi8(0x0f);
  __m512i sum[rows][2];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    sum[r][0] = kOffset == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(-kOffset * in.sums[r * in.scale_stride + cell]);
    sum[r][1] = sum[r][0];
  }
  const std::byte* a = in.values + cell * kCell;
#pragma GCC unroll 8
  for (int quad = 0; quad < 8; ++quad) {
    __m512i w0 = _mm512_load_si512(unit + 128 * quad);
    __m512i w1 = _mm512_load_si512(unit + 128 * quad + 64);
    if constexpr (format != WeightFormat::kW8) {
      if constexpr (place == 1) {
        w0 = _mm512_srli_epi16(w0, 4);
        w1 = _mm512_srli_epi16(w1, 4);
      }
      w0 = _mm512_and_si512(w0, low_nibbles);
      w1 = _mm512_and_si512(w1, low_nibbles);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const __m512i x = _mm512_set1_epi32(*reinterpret_cast<const std::int32_t*>(a + r * in.value_stride + 4 * quad));
      sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], w0, x);
      sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], w1, x);
    }
  }
  const auto halves = [](const std::byte* p) { return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(p))); };
  const std::byte* scales = unit + 8 * kRowBytes + place * kHalvesBytes;
  const __m512 d0 = halves(scales);
  const __m512 d1 = halves(scales + 32);
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    const __m512 da = _mm512_set1_ps(in.scales[r * in.scale_stride + cell]);
    acc[r][0] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][0]), _mm512_mul_ps(da, d0), acc[r][0]);
    acc[r][1] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][1]), _mm512_mul_ps(da, d1), acc[r][1]);
  }
  if constexpr (format == WeightFormat::kW4Min) {
    const __m512 m0 = halves(scales + 2 * kHalvesBytes);
    const __m512 m1 = halves(scales + 2 * kHalvesBytes + 32);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const __m512 scaled_sum = _mm512_set1_ps(in.scaled_sums[r * in.scale_stride + cell]);
      acc[r][0] = _mm512_fmadd_ps(m0, scaled_sum, acc[r][0]);
      acc[r][1] = _mm512_fmadd_ps(m1, scaled_sum, acc[r][1]);
    }
  }
}

template <WeightFormat format, int rows, bool ask_ahead>
void Block(const std::byte* panel, int cells, const Rows& in, float* out) {
  __m512 acc[rows][2];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) acc[r][0] = acc[r][1] = _mm512_setzero_ps();
  const std::byte* unit = panel;
  for (int cell = 0; cell < cells; cell += CellsPerUnit(format)) {
    if constexpr (ask_ahead) {
      for (std::size_t line = 0; line < UnitBytes(format); line += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(unit + kPrefetchBytes + line), _MM_HINT_T1);
      }
    }
    AddCell<format, 0, rows>(unit, in, cell, acc);
    if constexpr (CellsPerUnit(format) == 2) AddCell<format, 1, rows>(unit, in, cell + 1, acc);
    unit += UnitBytes(format);
  }
  // `unit` is at the column scales now.
  const __m512 scale0 = _mm512_loadu_ps(reinterpret_cast<const float*>(unit));
  const __m512 scale1 = _mm512_loadu_ps(reinterpret_cast<const float*>(unit) + 16);
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    _mm512_storeu_ps(out + r * kWidth, _mm512_mul_ps(acc[r][0], scale0));
    _mm512_storeu_ps(out + r * kWidth + 16, _mm512_mul_ps(acc[r][1], scale1));
  }
}

template <WeightFormat format, int rows>
void BlockOf(int actual, const std::byte* panel, int cells, const Rows& in, bool ask_ahead, float* out) {
  if (actual == rows) {
    if (ask_ahead) {
      Block<format, rows, true>(panel, cells, in, out);
    } else {
      Block<format, rows, false>(panel, cells, in, out);
    }
  } else if constexpr (rows > 1) {
    BlockOf<format, rows - 1>(actual, panel, cells, in, ask_ahead, out);
  }
}

// What rounding left of the activations of uneven cells, added to finished rows of a tile. Values that stand far out do so
// at the same places of most rows, so a cell's weights are unpacked once for all of them.
template <WeightFormat format>
void AddResiduals(const LinearTask& task, const std::byte* panel, int row_begin, int rows, float* tile) {
  constexpr int kOffset = format == WeightFormat::kW8 ? 128 : format == WeightFormat::kW4 ? 8 : 0;
  const float* column_scales = ColumnScalesOf(format, panel, task.cells);
  const std::uint8_t* flags = task.uneven + row_begin * task.uneven_stride;
  for (int base = 0; base < task.cells; base += 64) {
    // Behind these cells may stand others, where they are a slice of a row's.
    const int here = task.cells - base;
    const __mmask64 ours = here >= 64 ? ~__mmask64{0} : (__mmask64{1} << here) - 1;
    __m512i any = _mm512_setzero_si512();
    for (int r = 0; r < rows; ++r) {
      any = _mm512_or_si512(any, _mm512_maskz_loadu_epi8(ours, flags + r * task.uneven_stride + base));
    }
    for (std::uint64_t uneven = _mm512_test_epi8_mask(any, any); uneven != 0; uneven &= uneven - 1) {
      const int cell = base + __builtin_ctzll(uneven);
      const QuantisedCell from = QuantisedCellOf(format, panel, cell);
      __m512i w[8][2];
#pragma GCC unroll 8
      for (int quad = 0; quad < 8; ++quad) {
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half) {
          w[quad][half] = _mm512_loadu_si512(from.quads + kRowBytes * static_cast<std::size_t>(quad) + 64 * static_cast<std::size_t>(half));
          if constexpr (format != WeightFormat::kW8) {
            w[quad][half] = _mm512_and_si512(_mm512_srl_epi16(w[quad][half], _mm_cvtsi32_si128(from.shift)), _mm512_set1_epi8(0x0f));
          }
        }
      }
      const auto scaled = [&](int column) {
        const __m512 d = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from.scales + column)));
        return _mm512_mul_ps(d, _mm512_loadu_ps(column_scales + column));
      };
      const __m512 d0 = scaled(0), d1 = scaled(16);
      for (int r = 0; r < rows; ++r) {
        if (flags[r * task.uneven_stride + cell] == 0) continue;
        const std::ptrdiff_t at = (row_begin + r) * task.scale_stride + cell;
        const std::int8_t* a = task.residuals + (row_begin + r) * task.value_stride + cell * kCell;
        // Two chains per sum: a row has nothing else to wait with.
        __m512i sum[2][2];
        sum[0][0] = sum[0][1] = kOffset == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(-kOffset * task.residual_sums[at]);
        sum[1][0] = sum[1][1] = _mm512_setzero_si512();
#pragma GCC unroll 8
        for (int quad = 0; quad < 8; ++quad) {
          const __m512i x = _mm512_set1_epi32(*reinterpret_cast<const std::int32_t*>(a + 4 * quad));
          sum[quad % 2][0] = _mm512_dpbusd_epi32(sum[quad % 2][0], w[quad][0], x);
          sum[quad % 2][1] = _mm512_dpbusd_epi32(sum[quad % 2][1], w[quad][1], x);
        }
        const __m512 step = _mm512_set1_ps(task.scales[at] * kResidualStep);
        float* out = tile + r * kWidth;
        const __m512 total0 = _mm512_cvtepi32_ps(_mm512_add_epi32(sum[0][0], sum[1][0]));
        const __m512 total1 = _mm512_cvtepi32_ps(_mm512_add_epi32(sum[0][1], sum[1][1]));
        _mm512_storeu_ps(out, _mm512_fmadd_ps(total0, _mm512_mul_ps(step, d0), _mm512_loadu_ps(out)));
        _mm512_storeu_ps(out + 16, _mm512_fmadd_ps(total1, _mm512_mul_ps(step, d1), _mm512_loadu_ps(out + 16)));
      }
    }
  }
}

}  // namespace

template <WeightFormat format>
void LinearVnniInt8G32(const LinearTask& task) {
  auto* tile = reinterpret_cast<float*>(task.scratch);  // [64, 32]
  for (int index = task.panel_begin; index < task.panel_end; ++index) {
    const std::byte* panel = task.panels + task.panel_stride * static_cast<std::size_t>(index);
    for (int row = task.row_begin; row < task.row_end; row += kPieceRows) {
      const int rows = task.row_end - row < kPieceRows ? task.row_end - row : kPieceRows;
      // Blocks of nearly equal size: 5 + 5 rows rather than 8 + 2.
      const int blocks = (rows + kBlockRows - 1) / kBlockRows;
      for (int block = 0; block < blocks; ++block) {
        const int begin = rows * block / blocks;
        const int end = rows * (block + 1) / blocks;
        const std::ptrdiff_t at = (row + begin) * task.scale_stride;
        const Rows in = {task.values + (row + begin) * task.value_stride, task.value_stride, task.scales + at,
                         task.scaled_sums + at, task.sums + at, task.scale_stride};
        // Further rows find the panel in a cache.
        const bool first = row == task.row_begin && block == 0;
        const bool ask_ahead = first && (task.ask_ahead || AsksAhead(format, end - begin));
        BlockOf<format, kBlockRows>(end - begin, panel, task.cells, in, ask_ahead, tile + begin * kWidth);
      }
      AddResiduals<format>(task, panel, row, rows, tile);
      task.take(task.context, index, row, rows, tile);
    }
  }
}

template void LinearVnniInt8G32<WeightFormat::kW4>(const LinearTask&);
template void LinearVnniInt8G32<WeightFormat::kW4Min>(const LinearTask&);
template void LinearVnniInt8G32<WeightFormat::kW8>(const LinearTask&);

}  // namespace skein::kernels
