// SPDX-License-Identifier: Apache-2.0
//
// PackedLinear owns one weight matrix, y = W x, packed into panels of 32 output columns (rows of W). One packed copy
// serves every arithmetic, every kernel path and every number of rows.
//
// Bytes of a panel, in reading order, for each cell (for W4: each pair of cells), see cells.h:
//   W4, W4Min  8 rows of 128 bytes, row r: column n's four bytes at 4n, low nibbles the quad k = 4r..4r+3 of the even cell,
//              high nibbles the same quad of the odd cell; inside a quad the bytes stand in the order k0 k2 k1 k3, so that
//              masking every second byte gives the pairs (k0,k1) and (k2,k3) as 16-bit words. Values unsigned 0..15.
//              Then fp16 scales [2 cells, 32]; W4Min: fp16 minima [2 cells, 32]. W4: value = (q - 8) * scale.
//   W8         8 rows of 128 bytes as above with whole bytes (q + 128), then fp16 scales [32].
//   BF16       16 rows of 128 bytes: row p, column n: the pair k = 2p, 2p+1. (An AMX B tile at +64t with row stride 128.)
//   F32        32 rows of 128 bytes: row k, column n.
// then for W4, W4Min and W8 fp32 column scales [32]: powers of two. The fp16 scales and minima are divided by them at
// packing time so that every |value| of the column is below 1.98; results are multiplied by them at the end.
// Panels are multiples of 64 bytes. Columns beyond the matrix in the last panel are zero.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/status.h"
#include "kernels/arithmetic.h"
#include "kernels/linear/cells.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace skein::kernels {

inline constexpr int kPanelWidth = 32;

// The format that weights of a file's type are packed into: Q4_0 W4, Q4_1 W4Min, Q8_0 W8, BF16 BF16, F16 and F32 F32.
WeightFormat PackedFormatOf(DType dtype);

class PackedLinear {
 public:
  PackedLinear() = default;
  // Allocates room for a matrix of `outputs` x cells.k. Errors: kLimit when memory cannot be had.
  static Result<PackedLinear> Allocate(WeightFormat format, int outputs, Cells cells);
  // The same in memory that somebody else owns and that outlives this: PackedBytes() bytes of zeros, aligned to 64. Many
  // small matrices in one large Buffer lie in huge pages; each in a buffer of its own they would not, and reading them
  // takes twice the time.
  // Panels are `stride` bytes apart (0: they follow each other): those of several matrices may lie side by side.
  static PackedLinear Place(WeightFormat format, int outputs, Cells cells, std::byte* memory, std::size_t stride = 0);
  static std::size_t PackedBytes(WeightFormat format, int outputs, const Cells& cells);

  // Packs one panel from 32 rows of W as the file stores them (nullptr: a row of zeros), each of type `dtype` with
  // cells().row_columns columns. Thread rule: different panels may be packed at the same time.
  // Requires: PackedFormatOf(dtype) == format(), or format() == kF32 (any dtype is dequantised).
  void PackPanel(int panel, DType dtype, const std::array<const std::byte*, kPanelWidth>& rows);

  WeightFormat format() const { return format_; }
  int outputs() const { return outputs_; }
  int panels() const { return (outputs_ + kPanelWidth - 1) / kPanelWidth; }
  const Cells& cells() const { return cells_; }
  std::size_t panel_bytes() const { return panel_bytes_; }
  std::size_t panel_stride() const { return panel_stride_; }
  const std::byte* panel(int index) const { return memory_ + static_cast<std::size_t>(index) * panel_stride_; }
  std::size_t bytes() const { return static_cast<std::size_t>(panels()) * panel_bytes_; }

  // Row `output` as fp32 [k]: the embedding look-up of a tied head, and tests.
  void DequantizeRow(int output, float* into) const;

 private:
  WeightFormat format_ = WeightFormat::kF32;
  int outputs_ = 0;
  Cells cells_;
  std::size_t panel_bytes_ = 0;
  std::size_t panel_stride_ = 0;
  Buffer owned_;                // empty when placed
  std::byte* memory_ = nullptr;
};

}  // namespace skein::kernels
