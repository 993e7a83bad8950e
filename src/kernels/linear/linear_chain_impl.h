// SPDX-License-Identifier: Apache-2.0
//
// The body of the vector kernels whose sums are chains over K. Included once by each file that is compiled for an
// instruction set; that file gives the vector type V:
//
//   F, I                  a vector of kLanes fp32 numbers, of kLanes 32-bit integers
//   kRows, kRowsTwo       rows of a register block with one chain, with two chains per sum
//   LoadF StoreF Broadcast(const float*) Step(acc, w, x) Add Mul Zero   (Step: acc + w * x, one step of a chain)
//   LoadI ShiftRight<n> And Sub ToFloat HalvesToFloat Fma
//   Bf16ToFloat, SwappedBf16ToFloat (of each pair the second first)
//
// Words: an *input block* is as many cells of a piece's rows as there is room for as fp32: for few rows the whole of K. Its
// inputs are widened once for a *group* of panels. A *weight block* is a few cells of a panel: they are made fp32 (or,
// for vdpbf16ps, pairs of bf16) in scratch as [steps, 32] and multiplied with the rows of the piece. Where the piece is no
// more than one register block, bf16 weights are read from the panel directly: unpacking would be done for one use. C waits
// in scratch between blocks.
#pragma once

#include "kernels/linear/linear_vector.h"
#include "kernels/linear/panel.h"

namespace skein::kernels {
namespace {

constexpr int kWidth = 32;
constexpr int kCell = 32;
constexpr int kGroupPanels = 8;      // as many as a piece of work has at most
constexpr int kInputFloats = 16384;  // an input block: 256 of K for 64 rows
constexpr int kWeightFloats = 4096;  // a weight block: half of a first-level cache of 32 KB

// Where scratch goes.
constexpr std::size_t kWeightsAt = 0;                                      // [steps, 32] fp32
constexpr std::size_t kInputsAt = kWeightsAt + kWeightFloats * 4;          // [rows, cells * 32] fp32
constexpr std::size_t kSumsAt = kInputsAt + kInputFloats * 4;              // [8 panels, 64 rows, 32] fp32
constexpr std::size_t kPanelSums = kPieceRows * kWidth;
static_assert(kSumsAt + kGroupPanels * kPanelSums * 4 <= kVectorScratchBytes);

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

// How far ahead of reading a panel directly it is asked for. Few rows are bound by memory, and the processor's own prefetching
// leaves much of it: Emerald Rapids reads 33 GB/s with this instead of 24 for one row, 29 instead of 17 for four.
constexpr int kAheadBytes = 8192;

// As Chain, over bf16 weights as the panel has them: a pair of K in 32 bits, the even place in the low half. `odd_first` is
// the order in which a pair's places come, among the inputs too.
template <typename V, bool odd_first, int rows>
void PairChain(const std::byte* unit, const float* a, std::ptrdiff_t a_stride, int pairs, float* c) {
  const typename V::I upper = V::SetI(static_cast<int>(0xffff0000U));
  constexpr int kSpan = 2 * V::kLanes;
  for (int column = 0; column < kWidth; column += kSpan) {
    typename V::F acc[rows][2];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      acc[r][0] = V::LoadF(c + r * kWidth + column);
      acc[r][1] = V::LoadF(c + r * kWidth + column + V::kLanes);
    }
    const std::byte* at = unit + 4 * column;
    for (int pair = 0; pair < pairs; ++pair) {
      for (int line = 0; line < 8 * V::kLanes; line += 64) __builtin_prefetch(at + kAheadBytes + line, /*rw=*/0, /*locality=*/2);
      const typename V::I p0 = V::LoadI(at), p1 = V::LoadI(at + 4 * V::kLanes);
      at += kRowBytes;
      const typename V::F even0 = V::FromBits(V::template ShiftLeft<16>(p0)), odd0 = V::FromBits(V::And(p0, upper));
      const typename V::F even1 = V::FromBits(V::template ShiftLeft<16>(p1)), odd1 = V::FromBits(V::And(p1, upper));
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const typename V::F x = V::Broadcast(a + r * a_stride + 2 * pair);
        acc[r][0] = V::Step(acc[r][0], odd_first ? odd0 : even0, x);
        acc[r][1] = V::Step(acc[r][1], odd_first ? odd1 : even1, x);
      }
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        const typename V::F y = V::Broadcast(a + r * a_stride + 2 * pair + 1);
        acc[r][0] = V::Step(acc[r][0], odd_first ? even0 : odd0, y);
        acc[r][1] = V::Step(acc[r][1], odd_first ? even1 : odd1, y);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      V::StoreF(c + r * kWidth + column, acc[r][0]);
      V::StoreF(c + r * kWidth + column + V::kLanes, acc[r][1]);
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

// Calls PairChain likewise.
template <typename V, bool odd_first, int rows>
void MultiplyPairs(int actual, const std::byte* unit, const float* a, std::ptrdiff_t a_stride, int pairs, float* c) {
  if (actual == rows) {
    PairChain<V, odd_first, rows>(unit, a, a_stride, pairs, c);
  } else if constexpr (rows > 1) {
    MultiplyPairs<V, odd_first, rows - 1>(actual, unit, a, a_stride, pairs, c);
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

// bf16 activations as fp32, pairs swapped for bf16p. `count` is a multiple of the vector's lanes.
template <typename V, bool swap>
void WidenRow(const std::uint16_t* from, int count, float* into) {
  for (int k = 0; k < count; k += V::kLanes) {
    V::StoreF(into + k, swap ? V::SwappedBf16ToFloat(from + k) : V::Bf16ToFloat(from + k));
  }
}

inline int Less(int a, int b) { return a < b ? a : b; }

// The inputs of cells [begin, end) of a piece's rows.
struct InputBlock {
  const float* values = nullptr;
  std::ptrdiff_t stride = 0;
  int begin = 0, end = 0;
};

// Asks for a part of the panel that is read next, while there is enough to do with this one. Behind the end of a panel the
// processor's own prefetching begins anew; from the last-level cache that costs a tenth of a prompt's time.
inline void AskFor(const std::byte* from, std::size_t bytes) {
  for (std::size_t line = 0; line < bytes; line += 64) __builtin_prefetch(from + line, /*rw=*/0, /*locality=*/2);
}

// sums[row, column] += what a panel's cells of the input block give. `next_panel` follows.
template <typename V, typename Source>
void AddBlock(const LinearTask& task, const std::byte* panel, const std::byte* next_panel, const InputBlock& in, int rows,
              float* weights, float* sums) {
  constexpr int kBlockRows = Source::kTwo ? V::kRowsTwo : V::kRows;
  constexpr int kBlockCells = kWeightFloats / (Source::kStepsPerCell * kWidth);
  if constexpr (Source::kReadsPairs) {
    if (rows <= kBlockRows) {
      const std::byte* unit = panel + kBf16UnitBytes * static_cast<std::size_t>(in.begin);
      return MultiplyPairs<V, Source::kOddFirst, kBlockRows>(rows, unit, in.values, in.stride, (in.end - in.begin) * kCell / 2, sums);
    }
  }
  for (int cell = in.begin; cell < in.end; cell += kBlockCells) {
    const int end = Less(cell + kBlockCells, in.end);
    const float* w = Source::Weights(task, panel, cell, end, weights);
    const float* a = in.values + (cell - in.begin) * Source::kStepsPerCell;
    const std::byte* next = end < in.end ? panel + CellsBytes(task.format, end) : next_panel + CellsBytes(task.format, in.begin);
    const std::size_t next_bytes = CellsBytes(task.format, kBlockCells) / static_cast<std::size_t>((rows + kBlockRows - 1) / kBlockRows);
    for (int r = 0; r < rows; r += kBlockRows) {
      if (Source::kAsksAhead && rows > kBlockRows) AskFor(next, next_bytes);
      next += next_bytes;
      Multiply<V, Source::kTwo, kBlockRows>(Less(kBlockRows, rows - r), w, a + r * in.stride, in.stride,
                                            (end - cell) * Source::kStepsPerCell, sums + r * kWidth);
    }
  }
}

template <typename V>
void ScaleColumns(const LinearTask& task, const std::byte* panel, int rows, float* sums) {
  const float* scales = ColumnScalesOf(task.format, panel, task.cells);
  for (int r = 0; r < rows; ++r) {
    for (int n = 0; n < kWidth; n += V::kLanes) {
      V::StoreF(sums + r * kWidth + n, V::Mul(V::LoadF(sums + r * kWidth + n), V::LoadF(scales + n)));
    }
  }
}

// A call of a chain kernel. `Source` says how weights and inputs of a block come to be:
//   static const float* Weights(task, panel, cell_begin, cell_end, scratch)
//   static const float* Inputs(task, row, rows, cell_begin, cell_end, scratch, stride)
//   kStepsPerCell, kTwo, kAsksAhead, kReadsPairs (and then kOddFirst)
template <typename V, typename Source>
void RunChains(const LinearTask& task) {
  auto* weights = reinterpret_cast<float*>(task.scratch + kWeightsAt);
  auto* inputs = reinterpret_cast<float*>(task.scratch + kInputsAt);
  auto* group_sums = reinterpret_cast<float*>(task.scratch + kSumsAt);
  for (int row = task.row_begin; row < task.row_end; row += kPieceRows) {
    const int rows = Less(kPieceRows, task.row_end - row);
    const int input_cells = Less(task.cells, kInputFloats / (kCell * rows));
    InputBlock in;
    for (int group = task.panel_begin; group < task.panel_end; group += kGroupPanels) {
      const int group_end = Less(group + kGroupPanels, task.panel_end);
      for (int cell = 0; cell < task.cells; cell += input_cells) {
        const int end = Less(cell + input_cells, task.cells);
        if (in.values == nullptr || in.begin != cell) {
          in.begin = cell;
          in.end = end;
          in.values = Source::Inputs(task, row, rows, cell, end, inputs, in.stride);
        }
        for (int index = group; index < group_end; ++index) {
          const std::byte* panel = task.panels + task.panel_stride * static_cast<std::size_t>(index);
          float* sums = group_sums + static_cast<std::size_t>(index - group) * kPanelSums;
          for (int i = 0; cell == 0 && i < rows * kWidth; i += V::kLanes) V::StoreF(sums + i, V::Zero());
          const std::byte* next_panel = index + 1 < group_end ? panel + task.panel_stride : panel;
          AddBlock<V, Source>(task, panel, next_panel, in, rows, weights, sums);
          if (end < task.cells) continue;
          if (IsQuantised(task.format)) ScaleColumns<V>(task, panel, rows, sums);
          task.take(task.context, index, row, rows, sums);
        }
      }
    }
  }
}

// exact, bf16t and bf16p by fp32 FMAs.
template <typename V, WeightFormat format, Arithmetic arithmetic>
struct FmaSource {
  static constexpr int kStepsPerCell = kCell;
  static constexpr bool kTwo = arithmetic == Arithmetic::kBf16T;
  static constexpr bool kAsksAhead = true;
  static constexpr bool kReadsPairs = format == WeightFormat::kBf16 && !kTwo;
  static constexpr bool kOddFirst = arithmetic == Arithmetic::kBf16P;

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
      stride = (end - cell) * kCell;
      for (int r = 0; r < rows; ++r) {
        WidenRow<V, arithmetic == Arithmetic::kBf16P>(
            reinterpret_cast<const std::uint16_t*>(from + r * task.value_stride) + cell * kCell, (end - cell) * kCell,
            scratch + r * stride);
      }
      return scratch;
    }
  }
};

}  // namespace
}  // namespace skein::kernels
