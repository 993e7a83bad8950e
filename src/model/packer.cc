// SPDX-License-Identifier: Apache-2.0
//
// A *piece* is a few consecutive panels of one matrix: what a worker takes at a time. For each tensor that a piece draws
// from, the rows from the lowest to the highest that it needs (its *span*) are read at once.
#include "model/packer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "kernels/linear/packed_linear.h"

namespace skein::model {
namespace {

constexpr std::uint64_t kPieceBytes = 512 << 10;  // about; at least one panel

struct Piece {
  const MatrixPlan* plan = nullptr;
  kernels::PackedLinear* packed = nullptr;
  int panel_begin = 0, panel_end = 0;
};

// The rows of a tensor that a piece needs, and their bytes.
struct Span {
  int first = -1, last = -1;
  std::vector<std::byte> bytes;
};

std::uint64_t BytesOfRow(const MatrixPlan& plan) {
  return RowBytes(plan.dtype, static_cast<std::uint64_t>(plan.cells.k)).value_or(0);
}

int PanelsInPiece(const MatrixPlan& plan) {
  const std::uint64_t panel = std::max<std::uint64_t>(1, BytesOfRow(plan) * kernels::kPanelWidth);
  return static_cast<int>(std::max<std::uint64_t>(1, kPieceBytes / panel));
}

class Packing {
 public:
  Packing(const formats::ModelFile& file, std::vector<Piece> pieces, std::uint64_t total, const LoadProgress& progress)
      : file_(file), pieces_(std::move(pieces)), total_(total), progress_(progress) {}

  void Run(kernels::Worker& worker) {
    std::vector<Span> spans(3);
    for (;;) {
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= pieces_.size() || failed_.load(std::memory_order_relaxed)) return;
      const Status status = Pack(pieces_[index], spans);
      if (!status.ok()) {
        const std::lock_guard lock(mutex_);
        if (status_.ok()) status_ = status;
        failed_.store(true, std::memory_order_relaxed);
      }
      if (worker.index() == 0 && progress_) progress_(done_.load(std::memory_order_relaxed), total_);
    }
  }

  Status status() const { return status_; }

 private:
  Status Pack(const Piece& piece, std::vector<Span>& spans) {
    SKEIN_RETURN_IF_ERROR(ReadSpans(piece, spans));
    const std::uint64_t row_bytes = BytesOfRow(*piece.plan);
    const int outputs = piece.plan->rows.outputs();
    for (int panel = piece.panel_begin; panel < piece.panel_end; ++panel) {
      std::array<const std::byte*, kernels::kPanelWidth> rows{};
      for (int column = 0; column < kernels::kPanelWidth; ++column) {
        const int output = panel * kernels::kPanelWidth + column;
        if (output >= outputs) continue;
        const Origin origin = piece.plan->rows.OriginOf(output);
        if (origin.row < 0) continue;
        const Span& span = spans[static_cast<std::size_t>(origin.source)];
        rows[static_cast<std::size_t>(column)] = span.bytes.data() + static_cast<std::uint64_t>(origin.row - span.first) * row_bytes;
      }
      piece.packed->PackPanel(panel, piece.plan->dtype, rows);
    }
    done_.fetch_add(row_bytes * kernels::kPanelWidth * static_cast<std::uint64_t>(piece.panel_end - piece.panel_begin),
                    std::memory_order_relaxed);
    return OkStatus();
  }

  Status ReadSpans(const Piece& piece, std::vector<Span>& spans) {
    const RowMap& map = piece.plan->rows;
    for (Span& span : spans) span.first = span.last = -1;
    const int last = std::min(map.outputs(), piece.panel_end * kernels::kPanelWidth);
    for (int output = piece.panel_begin * kernels::kPanelWidth; output < last; ++output) {
      const Origin origin = map.OriginOf(output);
      if (origin.row < 0) continue;
      Span& span = spans[static_cast<std::size_t>(origin.source)];
      span.first = span.first < 0 ? origin.row : std::min(span.first, origin.row);
      span.last = std::max(span.last, origin.row);
    }
    const std::uint64_t row_bytes = BytesOfRow(*piece.plan);
    for (std::size_t i = 0; i < map.sources.size(); ++i) {
      Span& span = spans[i];
      if (span.first < 0) continue;
      span.bytes.resize(static_cast<std::uint64_t>(span.last - span.first + 1) * row_bytes);
      SKEIN_RETURN_IF_ERROR(file_.Read(*map.sources[i].tensor, static_cast<std::uint64_t>(span.first) * row_bytes, span.bytes));
    }
    return OkStatus();
  }

  const formats::ModelFile& file_;
  const std::vector<Piece> pieces_;
  const std::uint64_t total_;
  const LoadProgress& progress_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status status_;  // under mutex_ while workers run
};

// Vectors are small: read on one thread. Any type is widened, by packing it as a matrix of one column.
Status ReadVector(const formats::ModelFile& file, const VectorPlan& plan) {
  std::vector<std::vector<float>> values;
  for (const RowSource& source : plan.rows.sources) {
    values.emplace_back(static_cast<std::size_t>(source.rows), 0.0f);
    if (source.tensor == nullptr) continue;  // the file has no such vector: zeros
    const formats::TensorInfo& tensor = *source.tensor;
    std::vector<std::byte> bytes(tensor.bytes);
    SKEIN_RETURN_IF_ERROR(file.Read(tensor, 0, bytes));
    SKEIN_ASSIGN_OR_RETURN(auto row, kernels::PackedLinear::Allocate(kernels::WeightFormat::kF32, 1,
                                                                     kernels::MakeCells(source.rows, 0)));
    row.PackPanel(0, tensor.dtype, {bytes.data()});
    row.DequantizeRow(0, values.back().data());
  }
  plan.into->assign(static_cast<std::size_t>(plan.rows.outputs()), 0.0f);
  for (int output = 0; output < plan.rows.outputs(); ++output) {
    const Origin origin = plan.rows.OriginOf(output);
    if (origin.row < 0) continue;
    (*plan.into)[static_cast<std::size_t>(output)] =
        values[static_cast<std::size_t>(origin.source)][static_cast<std::size_t>(origin.row)];
  }
  return OkStatus();
}

}  // namespace

Status PackWeights(const formats::ModelFile& file, const WeightPlan& plan, kernels::KernelPath path,
                   const LoadProgress& progress, kernels::ThreadPool& pool, Buffer& memory) {
  for (const VectorPlan& vector : plan.vectors) SKEIN_RETURN_IF_ERROR(ReadVector(file, vector));
  // Matrices first, all of them, so that their addresses stay; then the pieces.
  Result<Buffer> all = Buffer::Allocate(plan.MatrixBytes());
  if (!all.ok()) return all.status().WithContext("weights");
  memory = std::move(all).value();
  std::byte* place = memory.data();
  for (const MatrixPlan& matrix : plan.matrices) {
    kernels::PackedLinear packed =
        kernels::PackedLinear::Place(matrix.format, matrix.rows.outputs(), matrix.cells, place);
    place += packed.bytes();
    matrix.into->push_back({.packed = std::move(packed),
                            .arithmetic = matrix.arithmetic,
                            .kernel = kernels::SelectLinear(path, matrix.format, matrix.arithmetic),
                            .first_column = matrix.first_column});
  }
  std::vector<Piece> pieces;
  std::uint64_t total = 0;
  for (const MatrixPlan& matrix : plan.matrices) {
    const auto same = std::find_if(matrix.into->begin(), matrix.into->end(),
                                   [&](const Matrix& m) { return m.first_column == matrix.first_column; });
    kernels::PackedLinear& packed = same->packed;
    const int step = PanelsInPiece(matrix);
    for (int panel = 0; panel < packed.panels(); panel += step) {
      pieces.push_back({&matrix, &packed, panel, std::min(packed.panels(), panel + step)});
    }
    total += BytesOfRow(matrix) * kernels::kPanelWidth * static_cast<std::uint64_t>(packed.panels());
  }
  Packing packing(file, std::move(pieces), total, progress);
  pool.Run([&](kernels::Worker& worker) { packing.Run(worker); });
  SKEIN_RETURN_IF_ERROR(packing.status());
  if (progress) progress(total, total);
  return OkStatus();
}

std::uint64_t PackerScratchBytes(const WeightPlan& plan, int threads) {
  std::uint64_t most = 0;
  for (const MatrixPlan& matrix : plan.matrices) {
    const std::uint64_t panel = BytesOfRow(matrix) * kernels::kPanelWidth;
    most = std::max(most, 2 * std::max(kPieceBytes, panel) + 2 * panel);
  }
  return most * static_cast<std::uint64_t>(threads);
}

}  // namespace skein::model
