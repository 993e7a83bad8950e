// SPDX-License-Identifier: Apache-2.0
//
// WeightPlan says, before anything is read, which packed matrices and vectors a model becomes: their formats, cells and
// arithmetics, and which row of which tensor each output comes from. An architecture writes it (arch/*.cc); the memory
// estimate adds it up; the packer carries it out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/model_file.h"
#include "kernels/arithmetic.h"
#include "kernels/linear/cells.h"
#include "model/weights.h"

namespace skein::model {

// Rows of one tensor (or elements of a vector), in the tensor's order, or with the rows of each head reordered: a file may
// store the pair (i, i + rotated / 2) of a head as rows (2i, 2i + 1).
struct RowSource {
  const formats::TensorInfo* tensor = nullptr;
  int rows = 0;
  int head_dim = 0;  // 0: as it stands
  int rotated = 0;   // rows of each head that form pairs; the rest stands as it is
  int first_row = 0;  // of the tensor's rows in the order that is wanted

  // The tensor's row for row `row` of this source.
  int FileRow(int row) const;
};

inline constexpr int kInterleave = 16;  // columns of gate, then as many of up, in a panel

// Where an output of a matrix comes from; tensor is null for a column of zeros.
struct Origin {
  int source = 0;
  int row = -1;  // of the file's tensor; -1: zeros
};

struct RowMap {
  std::vector<RowSource> sources;
  bool interleaved = false;  // two sources, kInterleave rows of each in turn; otherwise one after the other

  int outputs() const;
  Origin OriginOf(int output) const;
};

struct MatrixPlan {
  std::string name;  // "layers.3.qkv"
  RowMap rows;
  DType dtype = DType::kF32;  // of all its sources
  kernels::WeightFormat format = kernels::WeightFormat::kF32;
  kernels::Arithmetic arithmetic = kernels::Arithmetic::kExact;
  // The columns that are multiplied at once; in layout-deterministic mode each slice becomes a matrix of its own, and their panels lie
  // side by side.
  std::vector<kernels::Cells> slices;
  int first_column = 0;
  bool multiplied = true;  // false: rows are only looked up
  std::vector<Matrix>* into = nullptr;  // where they are appended

  int columns() const;         // of all slices
  std::uint64_t Bytes() const;  // packed
};

struct VectorPlan {
  RowMap rows;
  std::vector<float>* into = nullptr;
};

struct WeightPlan {
  kernels::Arithmetic arithmetic = kernels::Arithmetic::kExact;  // of the model: of attention, and of most matrices
  std::vector<MatrixPlan> matrices;
  std::vector<VectorPlan> vectors;

  std::uint64_t MatrixBytes() const;  // packed
  std::uint64_t PackedBytes() const;  // with the vectors
};

// Chooses the arithmetic of the model and of each matrix. `wanted` absent: auto, which depends on `best`, the best
// path of this machine. Errors: kInvalidArgument when a matrix has not the arithmetic that is wanted.
Status ChooseArithmetic(std::optional<kernels::Arithmetic> wanted, kernels::KernelPath best, WeightPlan& plan);

}  // namespace skein::model
