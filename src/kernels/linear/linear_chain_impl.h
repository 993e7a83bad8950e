// SPDX-License-Identifier: Apache-2.0
//
// The body of the vector kernels whose sums are chains over K. Included once by each file that is compiled for an
// instruction set; that file gives the vector type V:
//
//   F, I                  a vector of kLanes fp32 numbers, of kLanes 32-bit integers
//   kRows, kRowsTwo       rows of a register block with one chain, with two chains per sum
//   LoadF StoreF Broadcast(const float*) Step(acc, w, x) Add Mul Zero   (Step: acc + w * x, one step of a chain)
//   LoadI ShiftRight<n> And Sub ToFloat HalvesToFloat Fma
//
// Words: a *K block* is kBlockCells cells. A panel's weights of a K block are made fp32 (or, for vdpbf16ps, pairs of bf16)
// in scratch as [steps, 32], then multiplied with the rows of a piece; C waits in scratch between K blocks.
#pragma once

#include "kernels/linear/linear_vector.h"
#include "kernels/linear/panel.h"

namespace skein::kernels {
namespace {

constexpr int kWidth = 32;
constexpr int kCell = 32;
constexpr int kBlockCells = 8;
constexpr int kBlockRowsMax = 8;

// Where scratch goes.
constexpr std::size_t kWeightsAt = 0;                                                   // [block cells * 32, 32] fp32
constexpr std::size_t kInputsAt = kWeightsAt + kBlockCells * kCell * kWidth * 4;        // [8 rows, block cells * 32] fp32
constexpr std::size_t kSumsAt = kInputsAt + kBlockRowsMax * kBlockCells * kCell * 4;    // [64 rows, 32] fp32
static_assert(kSumsAt + kPieceRows * kWidth * 4 <= kVectorScratchBytes);

// One chain per sum: c[row, column] goes on over `steps` steps.
template <typename V, int rows>
void Chain(const float* w, const float* a, std::ptrdiff_t a_stride, int steps, float* c) {
  constexpr int kSpan = 2 * V::kLanes;
  for (int column = 0; column < kWidth; column += kSpan) {
    typename V::F acc[rows][2];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      acc[r][0] = V::LoadF(c + r * kWidth + column);
      acc[r][1] = V::LoadF(c + r * kWidth + column + V::kLanes);
    }
    const float* at = w + column;
    for (int k = 0; k < steps; ++k) {
      const typename V::F w0 = V::LoadF(at);
      const typename V::F w1 = V::LoadF(at + V::kLanes);
      at += kWidth;
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const typename V::F x = V::Broadcast(a + r * a_stride + k);
        acc[r][0] = V::Step(acc[r][0], w0, x);
        acc[r][1] = V::Step(acc[r][1], w1, x);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      V::StoreF(c + r * kWidth + column, acc[r][0]);
      V::StoreF(c + r * kWidth + column + V::kLanes, acc[r][1]);
    }
  }
}

// bf16t: per cell a chain over its even and one over its odd places, both from zero; c += even + odd.
template <typename V, int rows>
void TwoChains(const float* w, const float* a, std::ptrdiff_t a_stride, int steps, float* c) {
  constexpr int kSpan = 2 * V::kLanes;
  for (int column = 0; column < kWidth; column += kSpan) {
    for (int begin = 0; begin < steps; begin += kCell) {
      typename V::F even[rows][2];
      typename V::F odd[rows][2];
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) even[r][0] = even[r][1] = odd[r][0] = odd[r][1] = V::Zero();
      const float* at = w + begin * kWidth + column;
      for (int k = begin; k < begin + kCell; k += 2) {
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
          const typename V::F x = V::Broadcast(a + r * a_stride + k);
          const typename V::F y = V::Broadcast(a + r * a_stride + k + 1);
          even[r][0] = V::Step(even[r][0], V::LoadF(at), x);
          even[r][1] = V::Step(even[r][1], V::LoadF(at + V::kLanes), x);
          odd[r][0] = V::Step(odd[r][0], V::LoadF(at + kWidth), y);
          odd[r][1] = V::Step(odd[r][1], V::LoadF(at + kWidth + V::kLanes), y);
        }
        at += 2 * kWidth;
      }
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        float* sums = c + r * kWidth + column;
        V::StoreF(sums, V::Add(V::LoadF(sums), V::Add(even[r][0], odd[r][0])));
        V::StoreF(sums + V::kLanes, V::Add(V::LoadF(sums + V::kLanes), V::Add(even[r][1], odd[r][1])));
      }
    }
  }
}

// Calls Chain or TwoChains with the number of rows as a template argument.
template <typename V, bool two, int rows>
void Multiply(int actual, const float* w, const float* a, std::ptrdiff_t a_stride, int steps, float* c) {
  if (actual == rows) {
    if constexpr (two) {
      TwoChains<V, rows>(w, a, a_stride, steps, c);
    } else {
      Chain<V, rows>(w, a, a_stride, steps, c);
    }
  } else if constexpr (rows > 1) {
    Multiply<V, two, rows - 1>(actual, w, a, a_stride, steps, c);
  }
}

// The bits of a weight of bf16p: fp32 rounded to the nearest bf16, ties to even, as fp32.
template <typename V>
typename V::F RoundToBf16(typename V::F value) {
  const typename V::I bits = V::Bits(value);
  const typename V::I lowest = V::And(V::template ShiftRight<16>(bits), V::SetI(1));
  return V::FromBits(V::And(V::AddI(V::AddI(bits, V::SetI(0x7fff)), lowest), V::SetI(static_cast<int>(0xffff0000U))));
}

// A weight of bf16t as fp32. fp16 rounding of q * scale (+ minimum) must happen once: the fp32 sum is made odd when it is
// not exact, which 13 bits further down cannot be mistaken for a tie.
template <typename V, bool has_minimum>
typename V::F WeightBf16T(typename V::F q, typename V::F scale, typename V::F minimum) {
  typename V::F value = V::Mul(q, scale);  // exact
  if constexpr (has_minimum) {
    const typename V::F sum = V::Add(value, minimum);
    // The error of the sum, exactly (Knuth's two-sum).
    const typename V::F part = V::Sub(sum, value);
    const typename V::F error = V::Add(V::Sub(value, V::Sub(sum, part)), V::Sub(minimum, part));
    value = V::MakeOdd(sum, error);
  } else {
    value = V::Add(value, V::Zero());  // no negative zero: the definition is an FMA of the unsigned integer
  }
  // (h + 4) >> 3 of the half as a signed number, sign and mantissa kept, exponent rebiased; in the upper half of a word.
  const typename V::I half = V::HalfBits(value);  // sign-extended to 32 bits
  const typename V::I rounded = V::template ShiftRightSigned<3>(V::AddI(half, V::SetI(4)));
  const typename V::I kept = V::And(rounded, V::SetI(0x87ff));
  return V::FromBits(V::template ShiftLeft<16>(V::Or(kept, V::SetI(0x3800))));
}

// One quantised cell as fp32 weights [32, 32] in K order; with `swap` each pair's second place comes first.
template <typename V, WeightFormat format, Arithmetic arithmetic>
void UnpackQuantised(const std::byte* panel, int cell, float* into) {
  constexpr bool kMinimum = format == WeightFormat::kW4Min;
  constexpr bool kSwap = arithmetic == Arithmetic::kBf16P;
  const QuantisedCell from = QuantisedCellOf(format, panel, cell);
  for (int column = 0; column < kWidth; column += V::kLanes) {
    const typename V::F scale = V::HalvesToFloat(from.scales + column);
    const typename V::F minimum = kMinimum ? V::HalvesToFloat(from.minima + column) : V::Zero();
    for (int r = 0; r < 8; ++r) {
      typename V::I x = V::LoadI(from.quads + static_cast<std::size_t>(r) * kRowBytes + 4 * static_cast<std::size_t>(column));
      if (from.shift != 0) x = V::template ShiftRight<4>(x);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        typename V::I q = V::And(x, V::SetI(format == WeightFormat::kW8 ? 0xff : 0x0f));
        x = V::template ShiftRight<8>(x);
        if constexpr (format == WeightFormat::kW8) q = V::SubI(q, V::SetI(128));
        if constexpr (format == WeightFormat::kW4) q = V::SubI(q, V::SetI(8));
        const typename V::F f = V::ToFloat(q);
        typename V::F w;
        if constexpr (arithmetic == Arithmetic::kBf16T) {
          w = WeightBf16T<V, kMinimum>(f, scale, minimum);
        } else {
          w = kMinimum ? V::Fma(f, scale, minimum) : V::Mul(f, scale);
          if constexpr (arithmetic == Arithmetic::kBf16P) w = RoundToBf16<V>(w);
        }
        const int k = 4 * r + kQuadOrder[i];
        V::StoreF(into + (kSwap ? k ^ 1 : k) * kWidth + column, w);
      }
    }
  }
}

template <typename V, Arithmetic arithmetic>
void UnpackBf16(const std::byte* panel, int cell, float* into) {
  constexpr bool kSwap = arithmetic == Arithmetic::kBf16P;
  const std::byte* unit = panel + kBf16UnitBytes * static_cast<std::size_t>(cell);
  for (int pair = 0; pair < kCell / 2; ++pair) {
    for (int column = 0; column < kWidth; column += V::kLanes) {
      const typename V::I x = V::LoadI(unit + static_cast<std::size_t>(pair) * kRowBytes + 4 * static_cast<std::size_t>(column));
      V::StoreF(into + (2 * pair + (kSwap ? 1 : 0)) * kWidth + column, V::FromBits(V::template ShiftLeft<16>(x)));
      V::StoreF(into + (2 * pair + (kSwap ? 0 : 1)) * kWidth + column,
                V::FromBits(V::And(x, V::SetI(static_cast<int>(0xffff0000U)))));
    }
  }
}

// bf16 activations as fp32, pairs swapped for bf16p.
template <bool swap>
void WidenRow(const std::uint16_t* from, int count, float* into) {
  auto* words = reinterpret_cast<std::uint32_t*>(into);
  for (int k = 0; k < count; ++k) words[swap ? k ^ 1 : k] = static_cast<std::uint32_t>(from[k]) << 16;
}

inline int Less(int a, int b) { return a < b ? a : b; }

// A call of a chain kernel. `Source` says how weights and inputs of a K block come to be:
//   static const float* Weights(task, panel, cell_begin, cell_end, scratch)
//   static const float* Inputs(task, row, rows, cell_begin, cell_end, scratch, stride)
//   kStepsPerCell, kTwo
template <typename V, typename Source>
void RunChains(const LinearTask& task) {
  constexpr int kBlockRows = Source::kTwo ? V::kRowsTwo : V::kRows;
  auto* weights = reinterpret_cast<float*>(task.scratch + kWeightsAt);
  auto* inputs = reinterpret_cast<float*>(task.scratch + kInputsAt);
  auto* sums = reinterpret_cast<float*>(task.scratch + kSumsAt);
  for (int index = task.panel_begin; index < task.panel_end; ++index) {
    const std::byte* panel = task.panels + task.panel_stride * static_cast<std::size_t>(index);
    for (int row = task.row_begin; row < task.row_end; row += kPieceRows) {
      const int rows = Less(kPieceRows, task.row_end - row);
      for (int i = 0; i < rows * kWidth; i += V::kLanes) V::StoreF(sums + i, V::Zero());
      for (int cell = 0; cell < task.cells; cell += kBlockCells) {
        const int end = Less(cell + kBlockCells, task.cells);
        const float* w = Source::Weights(task, panel, cell, end, weights);
        for (int r = 0; r < rows; r += kBlockRows) {
          const int block = Less(kBlockRows, rows - r);
          std::ptrdiff_t stride = 0;
          const float* a = Source::Inputs(task, row + r, block, cell, end, inputs, stride);
          Multiply<V, Source::kTwo, kBlockRows>(block, w, a, stride, (end - cell) * Source::kStepsPerCell, sums + r * kWidth);
        }
      }
      if (IsQuantised(task.format)) {
        const float* scales = ColumnScalesOf(task.format, panel, task.cells);
        for (int r = 0; r < rows; ++r) {
          for (int n = 0; n < kWidth; n += V::kLanes) {
            V::StoreF(sums + r * kWidth + n, V::Mul(V::LoadF(sums + r * kWidth + n), V::LoadF(scales + n)));
          }
        }
      }
      task.take(task.context, index, row, rows, sums);
    }
  }
}

// exact, bf16t and bf16p by fp32 FMAs.
template <typename V, WeightFormat format, Arithmetic arithmetic>
struct FmaSource {
  static constexpr int kStepsPerCell = kCell;
  static constexpr bool kTwo = arithmetic == Arithmetic::kBf16T;

  static const float* Weights(const LinearTask&, const std::byte* panel, int cell, int end, float* scratch) {
    if constexpr (format == WeightFormat::kF32) {
      return reinterpret_cast<const float*>(panel + kF32UnitBytes * static_cast<std::size_t>(cell));
    } else {
      for (int c = cell; c < end; ++c) {
        float* into = scratch + (c - cell) * kCell * kWidth;
        if constexpr (format == WeightFormat::kBf16) {
          UnpackBf16<V, arithmetic>(panel, c, into);
        } else {
          UnpackQuantised<V, format, arithmetic>(panel, c, into);
        }
      }
      return scratch;
    }
  }

  static const float* Inputs(const LinearTask& task, int row, int rows, int cell, int end, float* scratch,
                             std::ptrdiff_t& stride) {
    const std::byte* from = task.values + row * task.value_stride;
    if constexpr (arithmetic == Arithmetic::kExact) {
      stride = task.value_stride / 4;
      return reinterpret_cast<const float*>(from) + cell * kCell;
    } else {
      stride = kBlockCells * kCell;
      for (int r = 0; r < rows; ++r) {
        WidenRow<arithmetic == Arithmetic::kBf16P>(
            reinterpret_cast<const std::uint16_t*>(from + r * task.value_stride) + cell * kCell, (end - cell) * kCell,
            scratch + r * stride);
      }
      return scratch;
    }
  }
};

}  // namespace
}  // namespace skein::kernels
