// SPDX-License-Identifier: Apache-2.0
//
// A *piece* is a few consecutive panels of one matrix: what a worker takes at a time. For each tensor that a piece draws
// from, the rows from the lowest to the highest that it needs (its *span*) are read at once.
#include "model/packer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "kernels/linear/packed_linear.h"
#include "model/packed_cache.h"

namespace skein::model {
namespace {

constexpr std::uint64_t kPieceBytes = 512 << 10;  // about; at least one panel

struct Piece {
  const MatrixPlan* plan = nullptr;
  Matrix* slices = nullptr;  // [plan->slices.size()]
  int panel_begin = 0, panel_end = 0;
};

// The rows of a tensor that a piece needs, and their bytes.
struct Span {
  int first = -1, last = -1;
  std::vector<std::byte> bytes;
};

std::uint64_t BytesOfRow(const MatrixPlan& plan) {
  return RowBytes(plan.dtype, static_cast<std::uint64_t>(plan.slices.front().row_columns)).value_or(0);
}

int PanelsInPiece(const MatrixPlan& plan) {
  const std::uint64_t panel = std::max<std::uint64_t>(1, BytesOfRow(plan) * kernels::kPanelWidth);
  return static_cast<int>(std::max<std::uint64_t>(1, kPieceBytes / panel));
}

// Reads the rows that the panels of a piece need. Errors: kInvalidFile.
Status ReadSpans(const formats::ModelFile& file, const Piece& piece, std::vector<Span>& spans) {
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
    const kernels::Cells &front = piece.plan->slices.front(), &back = piece.plan->slices.back();
    SKEIN_RETURN_IF_ERROR(file.ReadRows(*map.sources[i].tensor, static_cast<std::uint64_t>(span.first),
                                        static_cast<std::uint64_t>(front.first_column),
                                        static_cast<std::uint64_t>(back.first_column + back.k), span.bytes));
  }
  return OkStatus();
}

// Packs panel `panel` of the plan, whose rows are in `spans`, as panel `place` of `packed`.
void PackFrom(const std::vector<Span>& spans, const MatrixPlan& plan, int panel, kernels::PackedLinear& packed, int place) {
  const std::uint64_t row_bytes = BytesOfRow(plan);
  const int outputs = plan.rows.outputs();
  std::array<const std::byte*, kernels::kPanelWidth> rows{};
  for (int column = 0; column < kernels::kPanelWidth; ++column) {
    const int output = panel * kernels::kPanelWidth + column;
    if (output >= outputs) continue;
    const Origin origin = plan.rows.OriginOf(output);
    if (origin.row < 0) continue;
    const Span& span = spans[static_cast<std::size_t>(origin.source)];
    rows[static_cast<std::size_t>(column)] = span.bytes.data() + static_cast<std::uint64_t>(origin.row - span.first) * row_bytes;
  }
  packed.PackPanel(place, plan.dtype, rows);
}

// Pieces shared out among workers, until one fails.
class Packing {
 public:
  Packing(const formats::ModelFile& file, const std::vector<Piece>& pieces, const LoadProgress& progress)
      : file_(file), pieces_(pieces), progress_(progress) {
    for (const Piece& piece : pieces_) total_ += BytesOf(piece);
  }

  Status Run(kernels::ThreadPool& pool) {
    pool.Run([this](kernels::Worker& worker) { Work(worker); });
    if (status_.ok() && progress_) progress_(total_, total_);
    return status_;
  }

 private:
  static std::uint64_t BytesOf(const Piece& piece) {
    return BytesOfRow(*piece.plan) * kernels::kPanelWidth * static_cast<std::uint64_t>(piece.panel_end - piece.panel_begin);
  }

  void Work(kernels::Worker& worker) {
    std::vector<Span> spans(3);
    for (;;) {
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= pieces_.size() || failed_.load(std::memory_order_relaxed)) return;
      const Piece& piece = pieces_[index];
      const Status status = ReadSpans(file_, piece, spans);
      if (!status.ok()) {
        const std::lock_guard lock(mutex_);
        if (status_.ok()) status_ = status;
        failed_.store(true, std::memory_order_relaxed);
        return;
      }
      for (int panel = piece.panel_begin; panel < piece.panel_end; ++panel) {
        for (std::size_t slice = 0; slice < piece.plan->slices.size(); ++slice) {
          PackFrom(spans, *piece.plan, panel, piece.slices[slice].packed, panel);
        }
      }
      done_.fetch_add(BytesOf(piece), std::memory_order_relaxed);
      if (worker.index() == 0 && progress_) progress_(done_.load(std::memory_order_relaxed), total_);
    }
  }

  const formats::ModelFile& file_;
  const std::vector<Piece>& pieces_;
  const LoadProgress& progress_;
  std::uint64_t total_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status status_;  // under mutex_ while workers run
};

// Has each worker touch pages of its own. Pieces are smaller than huge pages, so that workers would else meet in one, and the
// kernel clears a page for each that comes while it is not there yet.
void TouchPages(kernels::ThreadPool& pool, Buffer& memory) {
  constexpr std::size_t kPage = 2 << 20;
  pool.Run([&](kernels::Worker& worker) {
    const auto share = worker.ShareOf(static_cast<int>((memory.size() + kPage - 1) / kPage));
    for (int page = share.begin; page < share.end; ++page) {
      *static_cast<volatile std::byte*>(memory.data() + static_cast<std::size_t>(page) * kPage) = std::byte{0};
    }
  });
}

// Whether the middle panel of every matrix has the bytes that packing it anew gives.
bool SamePanels(const formats::ModelFile& file, const std::vector<Piece>& wholes, kernels::ThreadPool& pool) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> same{true};
  pool.Run([&](kernels::Worker&) {
    std::vector<Span> spans(3);
    for (std::size_t i = next.fetch_add(1); i < wholes.size() && same.load(); i = next.fetch_add(1)) {
      Piece piece = wholes[i];
      const kernels::PackedLinear& packed = piece.slices[piece.plan->slices.size() / 2].packed;
      piece.panel_begin = packed.panels() / 2;
      piece.panel_end = piece.panel_begin + 1;
      Result<kernels::PackedLinear> anew = kernels::PackedLinear::Allocate(packed.format(), kernels::kPanelWidth, packed.cells());
      if (!anew.ok() || !ReadSpans(file, piece, spans).ok()) {
        same.store(false);
        return;
      }
      PackFrom(spans, *piece.plan, piece.panel_begin, *anew, 0);
      if (std::memcmp(anew->panel(0), packed.panel(piece.panel_begin), anew->bytes()) != 0) same.store(false);
    }
  });
  return same.load();
}

// Vectors are small: read whole, on one thread. Any type is widened, by packing it as a matrix of one column.
Status ReadVector(const formats::ModelFile& file, const VectorPlan& plan) {
  std::vector<std::vector<float>> values;
  for (const RowSource& source : plan.rows.sources) {
    const int elements = source.tensor == nullptr ? source.first_row + source.rows
                                                  : static_cast<int>(source.tensor->shape.back());
    values.emplace_back(static_cast<std::size_t>(elements), 0.0f);
    if (source.tensor == nullptr) continue;  // the file has no such vector: zeros
    const formats::TensorInfo& tensor = *source.tensor;
    std::vector<std::byte> bytes(tensor.bytes);
    SKEIN_RETURN_IF_ERROR(file.Read(tensor, 0, bytes));
    SKEIN_ASSIGN_OR_RETURN(auto row, kernels::PackedLinear::Allocate(kernels::WeightFormat::kF32, 1,
                                                                     kernels::MakeCells(elements, 0)));
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

Result<CacheUse> PackWeights(const formats::ModelFile& file, const WeightPlan& plan, const PackRequest& request,
                             kernels::ThreadPool& pool, Buffer& memory) {
  for (const VectorPlan& vector : plan.vectors) SKEIN_RETURN_IF_ERROR(ReadVector(file, vector));
  // Matrices first, all of them, so that their addresses stay; then the pieces.
  Result<Buffer> all = Buffer::Allocate(plan.MatrixBytes());
  if (!all.ok()) return all.status().WithContext("weights");
  memory = std::move(all).value();
  std::byte* place = memory.data();
  std::vector<std::size_t> firsts;  // of a plan's matrices in `into`
  for (const MatrixPlan& matrix : plan.matrices) {
    firsts.push_back(matrix.into->size());
    const int outputs = matrix.rows.outputs();
    // Slices stand panel by panel: whoever multiplies reads on in one stream.
    const std::size_t stride = matrix.Bytes() / static_cast<std::size_t>((outputs + kernels::kPanelWidth - 1) / kernels::kPanelWidth);
    std::byte* slice_place = place;
    for (const kernels::Cells& slice : matrix.slices) {
      kernels::PackedLinear packed = kernels::PackedLinear::Place(matrix.format, outputs, slice, slice_place, stride);
      slice_place += packed.panel_bytes();
      matrix.into->push_back({.packed = std::move(packed),
                              .arithmetic = matrix.arithmetic,
                              .kernel = kernels::SelectLinear(request.path, matrix.format, matrix.arithmetic),
                              .first_column = matrix.first_column});
    }
    place += matrix.Bytes();
  }
  std::vector<Piece> wholes;
  for (std::size_t i = 0; i < plan.matrices.size(); ++i) {
    Matrix* slices = plan.matrices[i].into->data() + firsts[i];
    wholes.push_back({&plan.matrices[i], slices, 0, slices->packed.panels()});
  }
  CacheUse use;
  std::optional<PackedCache> cache;
  if (!request.cache_folder.empty()) {
    cache.emplace(request.cache_folder, file, plan, request.path);
    Status read = cache->Read(pool, {memory.data(), memory.size()});
    if (read.ok() && !SamePanels(file, wholes, pool)) read = InvalidFile("its panels are not those of this program and model");
    use.read = read.ok();
    if (use.read) return use;
    if (read.code() != Code::kMissing) use.trouble = fmt::format("packed cache {} is not used: {}", cache->path(), read.message());
    memory.Clear();  // packing leaves out what is zero
  }
  TouchPages(pool, memory);
  std::vector<Piece> pieces;
  for (const Piece& whole : wholes) {
    const int step = PanelsInPiece(*whole.plan);
    for (int panel = 0; panel < whole.panel_end; panel += step) {
      pieces.push_back({whole.plan, whole.slices, panel, std::min(whole.panel_end, panel + step)});
    }
  }
  SKEIN_RETURN_IF_ERROR(Packing(file, pieces, request.progress).Run(pool));
  if (!cache) return use;
  const Status written = cache->Write(pool, {memory.data(), memory.size()});
  use.written = written.ok();
  if (!written.ok()) use.trouble = fmt::format("no packed cache is written: {}", written.message());
  return use;
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
