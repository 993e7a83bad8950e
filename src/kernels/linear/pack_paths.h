// SPDX-License-Identifier: Apache-2.0
//
// Ways of packing a panel, for packed_linear.cc, which chooses, and for tests, which compare them: the same bytes from all.
// pack_ref.cc says in plain loops what they are. Raw pointers, so that the files compiled for special instruction sets need
// no inline functions of classes (panel.h says why).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/arithmetic.h"
#include "kernels/linear/cells.h"
#include "tensor/dtype.h"

namespace skein::kernels {

inline constexpr int kPackColumns = 32;  // of a panel: rows of W

// What the largest |value| of a column is brought below: bf16t multiplies scales by 2^20 (4 bits) or 2^24 (8 bits), and the
// products are to be fp16 numbers (W4Min: d <= 2 * 0.468 / 15; W8: d <= 0.468 / 128).
inline constexpr double kColumnMax = 0.468;

// 32 rows as a file stores them, and how they are cut.
struct PanelSource {
  WeightFormat format = WeightFormat::kF32;  // of the panel
  DType dtype = DType::kF32;                 // of the rows
  const Cell* cells = nullptr;
  int cell_count = 0;    // even
  int first_column = 0;  // of the row, from which those of cells count
  int row_columns = 0;   // of the whole row, which is what a column's power of two depends on
  const std::byte* rows[kPackColumns] = {};  // nullptr: a row of zeros
};

// Writes a panel. Requires: `into` is aligned to 64 bytes and zero.
using PackFunction = void (*)(const PanelSource& source, std::byte* into);

void PackRef(const PanelSource& source, std::byte* into);
void PackAvx2(const PanelSource& source, std::byte* into);    // with F16C
void PackAvx512(const PanelSource& source, std::byte* into);

// Parts of PackRef that the others use for what is rare. Column n of the panel as a whole; of one unit (the cell `cell`, of W4
// two from there on; `inverse`: 1 / the column's power of two, 0 for zeros).
void PackColumnRef(const PanelSource& source, int n, std::byte* into);
void PackUnitOfColumnRef(const PanelSource& source, int cell, int n, double inverse, std::byte* into);

}  // namespace skein::kernels
