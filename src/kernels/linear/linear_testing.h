// SPDX-License-Identifier: Apache-2.0
//
// What tests and the benchmark of linear need: random weights as a file stores them, packed, and random activations
// rounded by plain loops (independent of rows/prepare). Not part of the library.
#pragma once

#include <xmmintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "kernels/linear/activations.h"
#include "kernels/linear/half.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/packed_linear.h"
#include "kernels/rows/rows.h"

namespace skein::kernels::testing {

// Workers run with denormals flushed (docs/numerics.md); so must whoever calls kernels.
inline void FlushDenormals() { _mm_setcsr(_mm_getcsr() | 0x8040U); }

inline DType FileTypeOf(WeightFormat format) {
  constexpr std::array<DType, 5> kTypes = {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kBF16, DType::kF32};
  return kTypes[static_cast<std::size_t>(format)];
}

// `outputs` rows of a matrix as a file of this type stores them; k rounded up to whole blocks.
struct FileMatrix {
  DType dtype = DType::kF32;
  std::size_t row_bytes = 0;
  std::vector<std::byte> bytes;

  const std::byte* row(int output) const { return bytes.data() + row_bytes * static_cast<std::size_t>(output); }
};

inline FileMatrix RandomMatrix(DType dtype, int outputs, int k, std::uint32_t seed) {
  const DTypeInfo& info = InfoOf(dtype);
  const auto padded = static_cast<std::uint64_t>((k + info.block_elements - 1) / info.block_elements * info.block_elements);
  FileMatrix matrix;
  matrix.dtype = dtype;
  matrix.row_bytes = static_cast<std::size_t>(*RowBytes(dtype, padded));
  matrix.bytes.resize(matrix.row_bytes * static_cast<std::size_t>(outputs));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.05F);
  for (int output = 0; output < outputs; ++output) {
    std::byte* at = matrix.bytes.data() + matrix.row_bytes * static_cast<std::size_t>(output);
    const float row_size = std::exp2(static_cast<float>(output % 13 - 9));
    for (std::uint64_t block = 0; block < padded / static_cast<std::uint64_t>(info.block_elements); ++block) {
      if (dtype == DType::kF32) {
        const float value = normal(random) * row_size;
        std::memcpy(at, &value, sizeof value);
      } else if (dtype == DType::kBF16 || dtype == DType::kF16) {
        const float value = normal(random) * row_size;
        const std::uint16_t bits = dtype == DType::kBF16 ? BfloatFromFloat(value) : HalfFromDouble(static_cast<double>(value));
        std::memcpy(at, &bits, sizeof bits);
      } else {
        const auto scale = static_cast<double>(row_size * (0.5F + std::abs(normal(random)) * 8));
        const std::uint16_t d = HalfFromDouble(dtype == DType::kQ4_0 && random() % 2 == 0 ? -scale / 8 : scale / 8);
        const std::uint16_t m = HalfFromDouble(-scale * (0.8 + 0.3 * static_cast<double>(normal(random))));
        for (int i = 0; i < info.block_bytes; ++i) at[i] = static_cast<std::byte>(random() & 0xffU);
        std::memcpy(at, &d, sizeof d);
        if (dtype == DType::kQ4_1) std::memcpy(at + 2, &m, sizeof m);
      }
      at += info.block_bytes;
    }
  }
  return matrix;
}

inline void PackInto(const FileMatrix& matrix, PackedLinear& packed) {
  const int outputs = packed.outputs();
  for (int panel = 0; panel < packed.panels(); ++panel) {
    std::array<const std::byte*, kPanelWidth> rows = {};
    for (int n = 0; n < kPanelWidth; ++n) {
      const int output = panel * kPanelWidth + n;
      rows[static_cast<std::size_t>(n)] = output < outputs ? matrix.row(output) : nullptr;
    }
    packed.PackPanel(panel, matrix.dtype, rows);
  }
}

inline PackedLinear Pack(const FileMatrix& matrix, WeightFormat format, int outputs, const Cells& cells) {
  PackedLinear packed = PackedLinear::Allocate(format, outputs, cells).value();
  PackInto(matrix, packed);
  return packed;
}

inline std::vector<float> RandomRows(int rows, int k, std::uint32_t seed) {
  std::vector<float> x(static_cast<std::size_t>(rows) * static_cast<std::size_t>(k));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  for (float& value : x) value = normal(random) * (random() % 97 == 0 ? 30.0F : 1.0F);
  return x;
}

inline void PrepareRows(const std::vector<float>& x, Activations& input) {
  const int k = input.cells().k;
  for (int row = 0; row < input.rows(); ++row) SelectRows(KernelPath::kRef).prepare(x.data() + static_cast<std::ptrdiff_t>(row) * k, row, input);
}

// Collects a kernel's results as [rows, outputs]; counts how often each place was given.
struct Collected {
  int outputs = 0;
  std::vector<float> values;
  std::vector<int> times;

  static void Take(void* context, int panel, int row, int rows, const float* tile) {
    auto& self = *static_cast<Collected*>(context);
    for (int r = 0; r < rows; ++r) {
      for (int n = 0; n < kPanelWidth; ++n) {
        const int output = panel * kPanelWidth + n;
        if (output >= self.outputs) break;
        const auto at = static_cast<std::size_t>(row + r) * static_cast<std::size_t>(self.outputs) + static_cast<std::size_t>(output);
        self.values[at] = tile[r * kPanelWidth + n];
        ++self.times[at];
      }
    }
  }
};

// Scratch for a kernel, aligned as it wants.
class Scratch {
 public:
  Scratch(const LinearKernel& kernel, const Cells& cells)
      : buffer_(Buffer::Allocate(std::max<std::size_t>(kernel.scratch_bytes(cells), 64)).value()) {}
  std::byte* data() { return buffer_.data(); }

 private:
  Buffer buffer_;
};

inline Collected RunAll(const LinearKernel& kernel, const PackedLinear& weights, const Activations& input) {
  Collected collected;
  collected.outputs = weights.outputs();
  const auto places = static_cast<std::size_t>(input.rows()) * static_cast<std::size_t>(weights.outputs());
  collected.values.assign(places, -12345.0F);
  collected.times.assign(places, 0);
  Scratch scratch(kernel, weights.cells());
  kernel.run(weights, 0, weights.panels(), input, 0, input.rows(), {Collected::Take, &collected}, scratch.data());
  return collected;
}

}  // namespace skein::kernels::testing
