// SPDX-License-Identifier: Apache-2.0
//
// Words used here. A *pair* is two cells: 64 of K, two B tiles a cell (amx_unpack.h). A *row block* is at most 32 rows: two A
// tiles, so with a panel's two column tiles four C tiles, which stay in registers over a *K block* (as many pairs as
// keep a panel's tiles in first-level cache). A *row chunk* is as many rows as keep their activations in second-level
// cache; inside it a *panel group* shares them. C is put aside as fp32 between K blocks, which changes no bit.
//
// The first row block of a panel unpacks the weights; later ones find the tiles in scratch. With one row block nothing is
// kept, the tiles of a batch overwrite those of the last. Unpacking and products alternate in *batches* of a few pairs and
// not finer: while the tile unit works, 512-bit multiplications wait for it (measured on Emerald Rapids: they share a
// port), so that a mixture is slower than one after the other. At one row the A tile has one row.
#include "kernels/linear/linear_amx.h"

#include <immintrin.h>

#include "kernels/linear/amx_tiles.h"
#include "kernels/linear/amx_unpack.h"
#include "kernels/linear/panel.h"

namespace skein::kernels {
namespace {

constexpr int kTileRows = 16;
constexpr int kBlockRows = 32;
constexpr int kWidth = 32;                  // columns of a panel
constexpr int kBatchPairs = 2;
constexpr int kBlockPairs = 10;             // K block: 640 of K
constexpr int kChunkRowsMax = 512;
constexpr std::size_t kChunkBytesMax = std::size_t{1} << 20;
constexpr int kGroupPanels = 8;

constexpr std::size_t kTileStride = 64;     // of a C tile's row among 32 columns, in floats' bytes: see kRowStride
constexpr std::size_t kRowStride = kWidth * sizeof(float);
constexpr std::size_t kOutBytes = kBlockRows * kRowStride;
constexpr std::size_t kTilesBytes = 2 * kBlockPairs * kCellTilesBytes;
constexpr std::size_t kAsideBytes = static_cast<std::size_t>(kGroupPanels) * kChunkRowsMax * kRowStride;

// Tiles 0-3: C, two row tiles by two column tiles. 4, 5: A. 6, 7: B.
struct TileConfigs {
  TileConfig of[kBlockRows + 1];  // by number of rows of a row block
};

constexpr TileConfigs MakeTileConfigs() {
  TileConfigs configs;
  for (int rows = 1; rows <= kBlockRows; ++rows) {
    TileConfig& config = configs.of[rows];
    const int first = rows < kTileRows ? rows : kTileRows;
    const int second = rows - first;
    const int tile_rows[8] = {first, first, second, second, first, second, kTileRows, kTileRows};
    for (int tile = 0; tile < 8; ++tile) {
      // A tile of no rows must have no columns either.
      config.rows[tile] = static_cast<std::uint8_t>(tile_rows[tile]);
      config.row_bytes[tile] = tile_rows[tile] > 0 ? 64 : 0;
    }
  }
  return configs;
}

constexpr TileConfigs kTileConfigs = MakeTileConfigs();

// What one row block needs for one K block of one panel.
template <WeightFormat format>
struct Block {
  const UnpackConstants* constants;
  const std::byte* panel;   // first byte of the panel
  std::byte* tiles;         // unpacked cells of this K block, or of one batch
  int ring_mask;            // cell & ring_mask is a cell's place in `tiles`
  int pair_begin, pair_end;
  const std::byte* a;       // first row of the block, first cell of the matrix
  std::ptrdiff_t a_stride;  // bytes
};

template <WeightFormat format>
struct BTile {
  static constexpr bool kUnpacked = format != WeightFormat::kBf16;
  static constexpr std::ptrdiff_t kStride = kUnpacked ? 64 : kRowBytes;
  static constexpr std::size_t kSecond = kUnpacked ? kTileBytes : 64;  // from the first column tile to the second
};

// Where the B tiles of a cell are.
template <WeightFormat format>
inline std::byte* TilesOf(const Block<format>& block, int cell) {
  return block.tiles + static_cast<std::size_t>((cell - 2 * block.pair_begin) & block.ring_mask) * kCellTilesBytes;
}

// Products of a cell, for one or two row tiles.
template <WeightFormat format, bool two>
inline void MultiplyCell(const Block<format>& block, int cell) {
  const std::byte* b = BTile<format>::kUnpacked ? TilesOf(block, cell)
                                                : block.panel + static_cast<std::size_t>(cell) * kBf16UnitBytes;
  const std::byte* a = block.a + static_cast<std::ptrdiff_t>(cell) * 64;
  const std::ptrdiff_t a_stride = block.a_stride;
  SKEIN_TILE_LOAD(6, b, BTile<format>::kStride);
  SKEIN_TILE_LOAD_ONCE(4, a, a_stride);
  SKEIN_TILE_BF16(0, 4, 6);
  SKEIN_TILE_LOAD(7, b + BTile<format>::kSecond, BTile<format>::kStride);
  SKEIN_TILE_BF16(1, 4, 7);
  if constexpr (two) {
    SKEIN_TILE_LOAD_ONCE(5, a + kTileRows * a_stride, a_stride);
    SKEIN_TILE_BF16(2, 5, 6);
    SKEIN_TILE_BF16(3, 5, 7);
  }
}

template <WeightFormat format, bool two>
void MultiplyCells(const Block<format>& block, int begin, int end) {
  for (int cell = begin; cell < end; ++cell) MultiplyCell<format, two>(block, cell);
}

template <WeightFormat format, bool two>
void MultiplyUnpacked(const Block<format>& block) {
  MultiplyCells<format, two>(block, 2 * block.pair_begin, 2 * block.pair_end);
}

template <WeightFormat format>
void UnpackPairs(const Block<format>& block, int begin, int end) {
  const UnpackConstants constants = *block.constants;
  for (int pair = begin; pair < end; ++pair) {
    UnpackPair<format>(constants, block.panel, pair, TilesOf(block, 2 * pair));
  }
}

template <WeightFormat format, bool two>
void MultiplyUnpacking(const Block<format>& block) {
  if constexpr (!BTile<format>::kUnpacked) {
    MultiplyUnpacked<format, two>(block);
  } else {
    for (int pair = block.pair_begin; pair < block.pair_end; pair += kBatchPairs) {
      const int end = pair + kBatchPairs < block.pair_end ? pair + kBatchPairs : block.pair_end;
      UnpackPairs(block, pair, end);
      MultiplyCells<format, two>(block, 2 * pair, 2 * end);
    }
  }
}

void ZeroC(bool two) {
  SKEIN_TILE_ZERO(0);
  SKEIN_TILE_ZERO(1);
  if (two) {
    SKEIN_TILE_ZERO(2);
    SKEIN_TILE_ZERO(3);
  }
}

void LoadC(bool two, const std::byte* from) {
  SKEIN_TILE_LOAD(0, from, kRowStride);
  SKEIN_TILE_LOAD(1, from + kTileStride, kRowStride);
  if (two) {
    SKEIN_TILE_LOAD(2, from + kTileRows * kRowStride, kRowStride);
    SKEIN_TILE_LOAD(3, from + kTileRows * kRowStride + kTileStride, kRowStride);
  }
}

void StoreC(bool two, std::byte* into) {
  SKEIN_TILE_STORE(0, into, kRowStride);
  SKEIN_TILE_STORE(1, into + kTileStride, kRowStride);
  if (two) {
    SKEIN_TILE_STORE(2, into + kTileRows * kRowStride, kRowStride);
    SKEIN_TILE_STORE(3, into + kTileRows * kRowStride + kTileStride, kRowStride);
  }
}

void ScaleColumns(const float* column_scales, int rows, float* tile) {
  const __m512 first = _mm512_loadu_ps(column_scales);
  const __m512 second = _mm512_loadu_ps(column_scales + 16);
  for (int row = 0; row < rows; ++row) {
    float* at = tile + row * kWidth;
    _mm512_store_ps(at, _mm512_mul_ps(_mm512_load_ps(at), first));
    _mm512_store_ps(at + 16, _mm512_mul_ps(_mm512_load_ps(at + 16), second));
  }
}

int Least(int a, int b) { return a < b ? a : b; }

// How a call is cut.
struct Cut {
  int block_pairs;  // pairs of a K block
  int chunk_rows;
  int group_panels;
};

Cut CutOf(const LinearTask& task) {
  const int pairs = task.cells / 2;
  const int rows = task.row_end - task.row_begin;
  if (rows <= kBlockRows || pairs <= kBlockPairs) {
    int chunk = static_cast<int>(kChunkBytesMax / static_cast<std::size_t>(task.value_stride)) / kBlockRows * kBlockRows;
    chunk = chunk < kBlockRows ? kBlockRows : Least(chunk, kChunkRowsMax);
    return {pairs, chunk, 1};
  }
  const int blocks = (pairs + kBlockPairs - 1) / kBlockPairs;
  return {(pairs + blocks - 1) / blocks, kChunkRowsMax, kGroupPanels};
}

template <WeightFormat format>
class Runner {
 public:
  explicit Runner(const LinearTask& task)
      : task_(task),
        cut_(CutOf(task)),
        constants_(MakeUnpackConstants(format)),
        tiles_(task.scratch),
        out_(task.scratch + kTilesBytes),
        aside_(out_ + 2 * kOutBytes) {}

  void Run() {
    for (int row = task_.row_begin; row < task_.row_end; row += cut_.chunk_rows) {
      const int rows = Least(cut_.chunk_rows, task_.row_end - row);
      for (int panel = task_.panel_begin; panel < task_.panel_end; panel += cut_.group_panels) {
        RunGroup(row, rows, panel, Least(cut_.group_panels, task_.panel_end - panel));
      }
    }
  }

 private:
  void RunGroup(int row, int rows, int panel, int panels) {
    const int pairs = task_.cells / 2;
    for (int pair = 0; pair < pairs; pair += cut_.block_pairs) {
      const int pair_end = Least(pair + cut_.block_pairs, pairs);
      for (int p = 0; p < panels; ++p) RunPanel(row, rows, panel + p, p, pair, pair_end);
    }
  }

  void RunPanel(int row, int rows, int panel, int place, int pair, int pair_end) {
    Block<format> block;
    block.constants = &constants_;
    block.panel = task_.panels + task_.panel_stride * static_cast<std::size_t>(panel);
    block.tiles = tiles_;
    block.ring_mask = rows <= kBlockRows ? 2 * kBatchPairs - 1 : -1;
    block.pair_begin = pair;
    block.pair_end = pair_end;
    block.a_stride = task_.value_stride;
    const bool first = pair == 0;
    const bool last = pair_end == task_.cells / 2;
    for (int at = 0; at < rows; at += kBlockRows) {
      const int block_rows = Least(kBlockRows, rows - at);
      block.a = task_.values + (row + at) * task_.value_stride;
      Configure(block_rows);
      std::byte* aside = aside_ + (static_cast<std::size_t>(place) * kChunkRowsMax + static_cast<std::size_t>(at)) * kRowStride;
      const bool two = block_rows > kTileRows;
      if (first) {
        ZeroC(two);
      } else {
        LoadC(two, aside);
      }
      if (at == 0) {
        two ? MultiplyUnpacking<format, true>(block) : MultiplyUnpacking<format, false>(block);
      } else {
        two ? MultiplyUnpacked<format, true>(block) : MultiplyUnpacked<format, false>(block);
      }
      if (!last) {
        StoreC(two, aside);
        continue;
      }
      out_turn_ ^= kOutBytes;
      StoreC(two, out_ + out_turn_);
      auto* tile = reinterpret_cast<float*>(out_ + out_turn_);
      if constexpr (IsQuantised(format)) ScaleColumns(ColumnScalesOf(format, block.panel, task_.cells), block_rows, tile);
      task_.take(task_.context, panel, row + at, block_rows, tile);
    }
  }

  // What the sink does must leave the tiles alone.
  void Configure(int rows) {
    if (rows == configured_rows_) return;
    LoadTileConfig(kTileConfigs.of[rows]);
    configured_rows_ = rows;
  }

  const LinearTask& task_;
  const Cut cut_;
  const UnpackConstants constants_;
  std::byte* const tiles_;
  std::byte* const out_;
  std::byte* const aside_;
  std::size_t out_turn_ = 0;
  int configured_rows_ = 0;
};

}  // namespace

std::size_t LinearAmxScratchBytes() { return kTilesBytes + 2 * kOutBytes + kAsideBytes; }

void LinearAmxBf16TW4(const LinearTask& task) { Runner<WeightFormat::kW4>(task).Run(); }
void LinearAmxBf16TW4Min(const LinearTask& task) { Runner<WeightFormat::kW4Min>(task).Run(); }
void LinearAmxBf16TW8(const LinearTask& task) { Runner<WeightFormat::kW8>(task).Run(); }
void LinearAmxBf16TBf16(const LinearTask& task) { Runner<WeightFormat::kBf16>(task).Run(); }

}  // namespace skein::kernels
