// SPDX-License-Identifier: Apache-2.0
//
// Multiply: one phase of matrix products, shared by all workers. Few rows: every worker takes an even, contiguous share
// of panels, so that it reads the same weights in every step. Many rows: *pieces* (a few panels by a block of rows) are
// taken from a counter, since cores may be unequally fast.
#pragma once

#include <algorithm>

#include "kernels/threads/thread_pool.h"
#include "model/inputs.h"
#include "model/share.h"
#include "model/weights.h"

namespace skein::model {

inline constexpr int kSharedRows = 16;  // up to here shares are even

struct Pieces {
  int unit = 1;         // panels that belong together
  int panels = 1;       // in a piece
  int panel_pieces = 1;
  int rows = 1;         // in a piece
  int row_pieces = 1;
  int count() const { return panel_pieces * row_pieces; }
};

// How `panels` by `rows` are cut for `workers`.
inline Pieces CutPieces(int panels, int rows, int workers, int unit) {
  const int blocks = (rows + 63) / 64;
  Pieces cut;
  cut.unit = unit;
  // Panels of a piece share the widening of their inputs, and the inputs in a cache. Where there is enough for everyone, a matrix with few
  // panels is cut by rows rather than into single panels (prompts of a small BF16 model: 7 % faster; of 4 bits: 2 %).
  constexpr int kShared = 3;
  const bool many = rows >= 256 && panels * blocks >= 4 * kShared * workers;
  cut.panels = std::clamp(panels / (16 * workers), many ? kShared : 1, 8);
  cut.panels = (cut.panels + unit - 1) / unit * unit;
  cut.panel_pieces = (panels + cut.panels - 1) / cut.panels;
  // Too few pieces to keep everyone busy: cut the rows as well, at multiples of 64.
  const int wanted = std::clamp((4 * workers + cut.panel_pieces - 1) / cut.panel_pieces, 1, blocks);
  cut.rows = (blocks + wanted - 1) / wanted * 64;
  cut.row_pieces = (rows + cut.rows - 1) / cut.rows;
  return cut;
}

// The same work for slices: `run(panel_begin, panel_end, row_begin, row_end)` is called for this worker's parts of `panels` x `rows`.
template <typename Run>
void ForEachPart(kernels::Worker& worker, int counter, int panels, int rows, Run run) {
  if (rows <= kSharedRows || worker.count() == 1) {
    const auto share = worker.ShareOf(panels);
    if (share.begin < share.end) run(share.begin, share.end, 0, rows);
    return;
  }
  const Pieces cut = CutPieces(panels, rows, worker.count(), 1);
  for (;;) {
    const int piece = worker.TakeFrom(counter, cut.count(), 1).begin;
    if (piece >= cut.count()) return;
    const int panel = piece / cut.row_pieces * cut.panels, row = piece % cut.row_pieces * cut.rows;
    run(panel, std::min(panel + cut.panels, panels), row, std::min(row + cut.rows, rows));
  }
}

// One worker's part of `matrices` x `rows` of `inputs`. `sink` is a context with first_column, columns and a
// static Take (sinks.h). `after(panel_begin, panel_end, row_begin, row_end)` is called when a part has gone to the sink.
// Requires: counter `counter` of the pool is at zero.
template <typename Sink, typename After>
void Multiply(kernels::Worker& worker, int counter, const std::vector<Matrix>& matrices, Inputs& inputs, Span rows,
              Sink sink, std::byte* scratch, int unit, After after) {
  const auto run = [&](const Matrix& matrix, int panel_begin, int panel_end, int row_begin, int row_end) {
    sink.first_column = matrix.first_column;
    sink.columns = matrix.packed.outputs();
    matrix.kernel.run(matrix.packed, panel_begin, panel_end, inputs.of(matrix.arithmetic), row_begin, row_end,
                      {&Sink::Take, &sink}, scratch);
    after(panel_begin, panel_end, row_begin, row_end);
  };
  if (rows.size() <= kSharedRows || worker.count() == 1) {
    for (const Matrix& matrix : matrices) {
      const auto share = worker.ShareOf(matrix.packed.panels(), unit);
      if (share.begin < share.end) run(matrix, share.begin, share.end, rows.begin, rows.end);
    }
    return;
  }
  int total = 0;
  for (const Matrix& matrix : matrices) total += CutPieces(matrix.packed.panels(), rows.size(), worker.count(), unit).count();
  for (;;) {
    int piece = worker.TakeFrom(counter, total, 1).begin;
    if (piece >= total) return;
    for (const Matrix& matrix : matrices) {
      const Pieces cut = CutPieces(matrix.packed.panels(), rows.size(), worker.count(), unit);
      if (piece >= cut.count()) {
        piece -= cut.count();
        continue;
      }
      const int panel = piece / cut.row_pieces * cut.panels, row = rows.begin + piece % cut.row_pieces * cut.rows;
      run(matrix, panel, std::min(panel + cut.panels, matrix.packed.panels()), row, std::min(row + cut.rows, rows.end));
      break;
    }
  }
}

template <typename Sink>
void Multiply(kernels::Worker& worker, int counter, const std::vector<Matrix>& matrices, Inputs& inputs, Span rows,
              Sink sink, std::byte* scratch) {
  Multiply(worker, counter, matrices, inputs, rows, sink, scratch, 1, [](int, int, int, int) {});
}

}  // namespace skein::model
