// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/activations.h"

#include <utility>

#include "base/check.h"

namespace skein::kernels {
namespace {

constexpr std::ptrdiff_t kLine = 64;

std::ptrdiff_t ElementBytes(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kInt8G32:
      return 1;
    case Arithmetic::kBf16T:
    case Arithmetic::kBf16P:
      return 2;
    case Arithmetic::kExact:
      return 4;
  }
  return 4;
}

Buffer Zeros(std::ptrdiff_t bytes) {
  auto buffer = Buffer::Allocate(static_cast<std::size_t>(bytes));
  SKEIN_CHECK(buffer.ok());
  return std::move(buffer).value();
}

}  // namespace

Activations::Activations(Arithmetic arithmetic, const Cells& cells, int rows, int uneven_sum)
    : arithmetic_(arithmetic), cells_(&cells), rows_(rows), uneven_sum_(uneven_sum) {
  SKEIN_CHECK(rows >= 0);
  // An odd number of cache lines per row: the rows of a tile, read at the same column, then fall into different sets
  // of a first-level cache.
  const std::ptrdiff_t lines = (cells.stored_columns() * ElementBytes(arithmetic) + kLine - 1) / kLine;
  value_stride_ = (lines | 1) * kLine;
  cell_bytes_ = kCellWidth * ElementBytes(arithmetic);
  values_ = Zeros(rows * value_stride_);
  if (arithmetic != Arithmetic::kInt8G32) return;
  scale_stride_ = (cells.count() + 15) / 16 * 16;
  const std::ptrdiff_t bytes = rows * scale_stride_ * static_cast<std::ptrdiff_t>(sizeof(float));
  scales_ = Zeros(bytes);
  scaled_sums_ = Zeros(bytes);
  sums_ = Zeros(bytes);
  residuals_ = Zeros(rows * value_stride_);
  residual_sums_ = Zeros(bytes);
  uneven_stride_ = (cells.count() + 63) / 64 * 64;
  uneven_ = Zeros(rows * uneven_stride_);
}

}  // namespace skein::kernels
