// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/linear/linear_testing.h"

namespace skein::kernels {
namespace {

using namespace testing;  // NOLINT: this file tests with exactly those helpers

constexpr std::array<WeightFormat, 5> kFormats = {WeightFormat::kW4, WeightFormat::kW4Min, WeightFormat::kW8,
                                                  WeightFormat::kBf16, WeightFormat::kF32};
constexpr std::array<Arithmetic, 4> kArithmetics = {Arithmetic::kInt8G32, Arithmetic::kBf16T, Arithmetic::kBf16P,
                                                    Arithmetic::kExact};

struct Shape {
  int k, slice_width, outputs;
};

class LinearTest : public ::testing::Test {
 protected:
  void SetUp() override { FlushDenormals(); }
};

void ExpectSameBits(const Collected& got, const Collected& want, const std::string& what) {
  ASSERT_EQ(got.values.size(), want.values.size());
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    ASSERT_EQ(got.times[i], 1) << what << " place " << i;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got.values[i]), std::bit_cast<std::uint32_t>(want.values[i]))
        << what << " row " << i / static_cast<std::size_t>(got.outputs) << " output "
        << i % static_cast<std::size_t>(got.outputs) << ": " << got.values[i] << " instead of " << want.values[i];
  }
}

// Every format and arithmetic of one shape: each path against ref, for `rows` rows.
void ComparePaths(const Shape& shape, const std::vector<int>& row_counts) {
  const Cells cells = MakeCells(shape.k, shape.slice_width);
  for (const WeightFormat format : kFormats) {
    const FileMatrix matrix = RandomMatrix(FileTypeOf(format), shape.outputs, shape.k, 11);
    const PackedLinear weights = Pack(matrix, format, shape.outputs, cells);
    for (const Arithmetic arithmetic : kArithmetics) {
      if (!HasArithmetic(format, arithmetic)) continue;
      for (const int rows : row_counts) {
        Activations input(arithmetic, weights.cells(), rows);
        PrepareRows(RandomRows(rows, shape.k, static_cast<std::uint32_t>(rows)), input);
        const LinearKernel ref = SelectLinear(KernelPath::kRef, format, arithmetic);
        const Collected want = RunAll(ref, weights, input);
        for (const KernelPath path : AvailablePaths()) {
          if (path == KernelPath::kRef) continue;
          for (const LinearKernel& kernel : RunnableLinear(path, format, arithmetic)) {
            ExpectSameBits(RunAll(kernel, weights, input), want,
                           std::string(kernel.name) + " K " + std::to_string(shape.k) + " rows " + std::to_string(rows));
            if (::testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// Would break: two machines, or one with --kernels, answer differently.
TEST_F(LinearTest, PathsGiveTheBitsOfRefOnModelShapes) {
  ComparePaths({576, 0, 64}, {1, 2, 5, 16, 33, 80});
  ComparePaths({1536, 64, 32}, {1, 17, 40});
  ComparePaths({576, 0, 960}, {3});
}

TEST_F(LinearTest, PathsGiveTheBitsOfRefOnOddShapes) {
  ComparePaths({96, 24, 3}, {1, 4, 13, 48, 64, 65});
  ComparePaths({160, 80, 515}, {1, 6, 8, 19});
  ComparePaths({24, 0, 40}, {1, 2, 7, 32});
  ComparePaths({515, 0, 33}, {1, 3, 15, 34});
}

TEST_F(LinearTest, PathsGiveTheBitsOfRefOnLongK) {
  ComparePaths({8192, 256, 32}, {1, 8, 18});
  ComparePaths({2048, 0, 34}, {35});
  ComparePaths({1120, 0, 300}, {7, 70});  // more panels than a group, more of K than an input block
}

// Would break: a token's result depends on its company in the step, or on how a thread's share is cut.
TEST_F(LinearTest, RowsAndPanelsDoNotDependOnTheRest) {
  const Cells cells = MakeCells(576, 64);
  constexpr int kRows = 70;
  constexpr int kOutputs = 192;
  for (const WeightFormat format : kFormats) {
    const PackedLinear weights = Pack(RandomMatrix(FileTypeOf(format), kOutputs, 576, 3), format, kOutputs, cells);
    for (const Arithmetic arithmetic : kArithmetics) {
      if (!HasArithmetic(format, arithmetic)) continue;
      Activations input(arithmetic, weights.cells(), kRows);
      PrepareRows(RandomRows(kRows, 576, 4), input);
      for (const KernelPath path : AvailablePaths()) {
        if (path == KernelPath::kRef) continue;
        const LinearKernel kernel = SelectLinear(path, format, arithmetic);
        const Collected whole = RunAll(kernel, weights, input);
        Collected parts = whole;
        parts.values.assign(parts.values.size(), 0.0F);
        parts.times.assign(parts.times.size(), 0);
        Scratch scratch(kernel, weights.cells());
        constexpr std::array<int, 6> kRowCuts = {0, 1, 3, 20, 69, 70};
        constexpr std::array<int, 4> kPanelCuts = {0, 1, 4, 6};
        for (std::size_t p = 1; p < kPanelCuts.size(); ++p) {
          for (std::size_t r = 1; r < kRowCuts.size(); ++r) {
            kernel.run(weights, kPanelCuts[p - 1], kPanelCuts[p], input, kRowCuts[r - 1], kRowCuts[r],
                       {Collected::Take, &parts}, scratch.data());
          }
        }
        ExpectSameBits(parts, whole, std::string(kernel.name));
      }
    }
  }
}

// Would break: in the layout-deterministic mode a mesh of ranks answers differently from one rank, or a kernel path from another.
TEST_F(LinearTest, ASliceHasTheSameBitsOnWhicheverRankItIs) {
  constexpr int kRows = 35;
  constexpr int kOutputs = 70;
  for (const int width : {80, 96, 64}) {
    const int k = 4 * width - width / 2, cut = 2 * width;
    const SlicedCells whole = MakeSlicedCells(k, width, 0, k), part = MakeSlicedCells(k, width, cut, k);
    const std::vector<float> x = RandomRows(kRows, k, 8);
    std::vector<float> x_part;
    for (int row = 0; row < kRows; ++row) x_part.insert(x_part.end(), x.begin() + row * k + cut, x.begin() + (row + 1) * k);
    for (const WeightFormat format : kFormats) {
      const FileMatrix matrix = RandomMatrix(FileTypeOf(format), kOutputs, k, 9);
      for (const Arithmetic arithmetic : kArithmetics) {
        if (!HasArithmetic(format, arithmetic)) continue;
        Activations input(arithmetic, whole.inputs, kRows), input_part(arithmetic, part.inputs, kRows);
        PrepareRows(x, input);
        PrepareRows(x_part, input_part);
        for (std::size_t slice = 0; slice < part.slices.size(); ++slice) {
          const PackedLinear weights = Pack(matrix, format, kOutputs, whole.slices[slice + 2]);
          const PackedLinear weights_part = Pack(matrix, format, kOutputs, part.slices[slice]);
          const Collected want = RunAll(SelectLinear(KernelPath::kRef, format, arithmetic), weights, input);
          for (const KernelPath path : AvailablePaths()) {
            const LinearKernel kernel = SelectLinear(path, format, arithmetic);
            ExpectSameBits(RunAll(kernel, weights_part, input_part), want, std::string(kernel.name) + " width " + std::to_string(width));
            ExpectSameBits(RunAll(kernel, weights, input), want, std::string(kernel.name) + " width " + std::to_string(width));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// Would break: answers drift from the model's by more than the rounding that an arithmetic is named after.
TEST_F(LinearTest, ArithmeticsAreCloseToTheProduct) {
  constexpr int kK = 576;
  constexpr int kRows = 3;
  constexpr int kOutputs = 64;
  const std::vector<float> x = RandomRows(kRows, kK, 5);
  for (const WeightFormat format : kFormats) {
    const PackedLinear weights =
        Pack(RandomMatrix(FileTypeOf(format), kOutputs, kK, 6), format, kOutputs, MakeCells(kK, 0));
    for (const Arithmetic arithmetic : kArithmetics) {
      if (!HasArithmetic(format, arithmetic)) continue;
      Activations input(arithmetic, weights.cells(), kRows);
      PrepareRows(x, input);
      const Collected got = RunAll(SelectLinear(KernelPath::kRef, format, arithmetic), weights, input);
      const double tolerance = arithmetic == Arithmetic::kExact ? 1e-5 : arithmetic == Arithmetic::kInt8G32 ? 5e-2 : 4e-3;
      std::vector<float> w(kK);
      for (int output = 0; output < kOutputs; ++output) {
        weights.DequantizeRow(output, w.data());
        for (int row = 0; row < kRows; ++row) {
          double sum = 0;
          double squares = 0;
          for (int k = 0; k < kK; ++k) {
            const double product = static_cast<double>(w[static_cast<std::size_t>(k)]) * static_cast<double>(x[static_cast<std::size_t>(row * kK + k)]);
            sum += product;
            squares += product * product;
          }
          const double value = static_cast<double>(got.values[static_cast<std::size_t>(row * kOutputs + output)]);
          ASSERT_NEAR(value, sum, tolerance * std::sqrt(squares) * 2 + 1e-12)
              << NameOf(arithmetic) << " " << NameOf(format) << " row " << row << " output " << output;
        }
      }
    }
  }
}

}  // namespace
}  // namespace skein::kernels
