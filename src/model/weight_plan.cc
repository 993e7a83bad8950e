// SPDX-License-Identifier: Apache-2.0
#include "model/weight_plan.h"

#include <fmt/format.h>

#include <array>

namespace skein::model {

int RowSource::FileRow(int row) const {
  row += first_row;
  if (head_dim == 0) return row;
  const int place = row % head_dim;
  if (place >= rotated) return row;
  const int half = rotated / 2;
  return row - place + (place < half ? 2 * place : 2 * (place - half) + 1);
}

int RowMap::outputs() const {
  if (interleaved) {
    const int pieces = (sources[0].rows + kInterleave - 1) / kInterleave;
    return pieces * 2 * kInterleave;
  }
  int count = 0;
  for (const RowSource& source : sources) count += source.rows;
  return count;
}

Origin RowMap::OriginOf(int output) const {
  if (interleaved) {
    const int source = output / kInterleave % 2;
    const int row = output / (2 * kInterleave) * kInterleave + output % kInterleave;
    const RowSource& from = sources[static_cast<std::size_t>(source)];
    return {source, row < from.rows ? from.FileRow(row) : -1};
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (output < sources[i].rows) return {static_cast<int>(i), sources[i].FileRow(output)};
    output -= sources[i].rows;
  }
  return {0, -1};
}

int MatrixPlan::columns() const {
  int count = 0;
  for (const kernels::Cells& slice : slices) count += slice.k;
  return count;
}

std::uint64_t MatrixPlan::Bytes() const {
  std::uint64_t bytes = 0;
  for (const kernels::Cells& slice : slices) bytes += kernels::PackedLinear::PackedBytes(format, rows.outputs(), slice);
  return bytes;
}

std::uint64_t WeightPlan::MatrixBytes() const {
  std::uint64_t bytes = 0;
  for (const MatrixPlan& matrix : matrices) bytes += matrix.Bytes();
  return bytes;
}

std::uint64_t WeightPlan::PackedBytes() const {
  std::uint64_t bytes = MatrixBytes();
  for (const VectorPlan& vector : vectors) bytes += sizeof(float) * static_cast<std::uint64_t>(vector.rows.outputs());
  return bytes;
}

Status ChooseArithmetic(std::optional<kernels::Arithmetic> wanted, kernels::KernelPath best, WeightPlan& plan) {
  if (!wanted) {
    std::array<std::uint64_t, 5> weights{};  // by format
    std::size_t most = 0;
    for (const MatrixPlan& matrix : plan.matrices) {
      if (!matrix.multiplied) continue;
      const auto format = static_cast<std::size_t>(matrix.format);
      weights[format] += static_cast<std::uint64_t>(matrix.rows.outputs()) * static_cast<std::uint64_t>(matrix.columns());
      if (weights[format] > weights[most]) most = format;
    }
    plan.arithmetic = kernels::DefaultArithmetic(static_cast<kernels::WeightFormat>(most), best);
  } else {
    plan.arithmetic = *wanted;
  }
  for (MatrixPlan& matrix : plan.matrices) {
    matrix.arithmetic = plan.arithmetic;
    if (kernels::HasArithmetic(matrix.format, plan.arithmetic)) continue;
    if (wanted && matrix.multiplied) {
      return InvalidArgument(
          fmt::format("arithmetic {}: expected weights that have it, {} is {}; take --arithmetic auto or exact",
                      kernels::NameOf(*wanted), matrix.rows.sources[0].tensor->file_name, InfoOf(matrix.dtype).name),
          "arithmetic");
    }
    matrix.arithmetic = kernels::DefaultArithmetic(matrix.format, best);
  }
  return OkStatus();
}

}  // namespace skein::model
