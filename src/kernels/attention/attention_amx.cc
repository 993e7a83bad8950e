// SPDX-License-Identifier: Apache-2.0
//
// attention with AMX tiles (bf16t): scores straight from key tiles and weighted values straight from value tiles as
// they are stored. A group is one row tile: then its scores and probabilities stay in L1
// while keys and values stream through.
#include "kernels/attention/attention_flash_impl.h"
#include "kernels/attention/attention_paths.h"

namespace skein::kernels {
namespace {

// Tiles 0..3 sums, 4 and 5 left operands (queries, probabilities), 6 and 7 right operands (keys, values).
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {};
};

struct TileConfigs {
  TileConfig of_rows[17];
  constexpr TileConfigs() {
    for (int n = 1; n <= 16; ++n) {
      for (int tile = 0; tile < 8; ++tile) of_rows[n].rows[tile] = static_cast<std::uint8_t>(tile < 6 ? n : 16);
    }
  }
};
constexpr TileConfigs kConfigs;

// Compilers do not see that tile loads read memory: what was stored before must be there.
SKEIN_V16_INLINE void MemoryBarrier() { asm volatile("" ::: "memory"); }

SKEIN_V16_INLINE void Configure(int rows) {
  MemoryBarrier();
  _tile_loadconfig(&kConfigs.of_rows[rows]);
}

struct TileEngine {
  using Element = std::uint16_t;
  static constexpr bool kExact = false;
  static constexpr bool kWholeValueTiles = true;
  static constexpr int kGroupRows = 32;
  static constexpr bool kFewApart = false;

  // [row tile of 16][step of 32 dimensions][16][32]
  static int QueryPlace(int d, int row, int dim) {
    return (row / 16 * (d / 32) + dim / 32) * 512 + row % 16 * 32 + dim % 32;
  }
  // [row tile of 16][key tile of 32][16][32]
  static constexpr int kProbabilityStep = 512;
  static constexpr int kProbabilityTile = kSplitKeys / 32 * kProbabilityStep;
  static int ProbabilityPlace(int row) { return row / 16 * kProbabilityTile + row % 16 * 32; }
  SKEIN_V16_INLINE void StoreElements(std::uint16_t* place, V16 x) { StoreBf16(place, x); }
  SKEIN_V16_INLINE void StorePair(std::uint16_t* place, V16 x, V16 y) {
    _mm512_storeu_si512(place, (__m512i)_mm512_cvtne2ps_pbh(y.v, x.v));
  }

  // A lone group has a tile row per row; several take 16 each, the last one too: unused rows cost nothing there.
  static void Begin(int rows) { Configure(rows < 16 ? rows : 16); }

  // A tile unit that has been idle for about 1,000 cycles takes 600 to wake (measured on Sapphire Rapids). A product
  // that nobody wants, into a sum that is cleared before its next use, keeps it awake.
  SKEIN_V16_INLINE void StayAwake() { _tile_dpbf16ps(3, 4, 6); }

  static void Scores(const Element* queries, int rows, int d, const std::byte* const* keys, int tiles, float* scores) {
    MemoryBarrier();
    if (rows > 16) return ScoresOfTwo(queries, d, keys, tiles, scores);
    for (int tile = 0; tile < tiles; tile += 2) {
      _tile_zero(0);
      _tile_zero(1);
      for (int s = 0; s < d / 32; ++s) {
        _tile_loadd(4, queries + s * 512, 64);
        _tile_loadd(6, keys[tile] + s * 1024, 64);
        _tile_loadd(7, keys[tile + 1] + s * 1024, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
      }
      _tile_stored(0, scores + tile * ScoreTile<TileEngine>(), 64);
      _tile_stored(1, scores + (tile + 1) * ScoreTile<TileEngine>(), 64);
    }
  }

  // The same for two row tiles.
  static void ScoresOfTwo(const Element* queries, int d, const std::byte* const* keys, int tiles, float* scores) {
    const int steps = d / 32;
    for (int tile = 0; tile < tiles; tile += 2) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      for (int s = 0; s < steps; ++s) {
        _tile_loadd(4, queries + s * 512, 64);
        _tile_loadd(6, keys[tile] + s * 1024, 64);
        _tile_loadd(7, keys[tile + 1] + s * 1024, 64);
        _tile_loadd(5, queries + (steps + s) * 512, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
      float* into = scores + tile * ScoreTile<TileEngine>();
      _tile_stored(0, into, 64);
      _tile_stored(1, into + ScoreTile<TileEngine>(), 64);
      _tile_stored(2, into + 256, 64);
      _tile_stored(3, into + ScoreTile<TileEngine>() + 256, 64);
    }
  }

  static void WeighTwo(const Element* probabilities, int d, const std::byte* const* values, int tiles, float* out) {
    const int stride = d * static_cast<int>(sizeof(float));
    for (int column = 0; column < d; column += 32) {
      const int offset = column * 64;
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      for (int t = 0; t < tiles; ++t) {
        _tile_loadd(4, probabilities + t * kProbabilityStep, 64);
        _tile_loadd(6, values[t] + offset, 64);
        _tile_loadd(7, values[t] + offset + 1024, 64);
        _tile_loadd(5, probabilities + kProbabilityTile + t * kProbabilityStep, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
      _tile_stored(0, out + column, stride);
      _tile_stored(1, out + column + 16, stride);
      _tile_stored(2, out + 16 * d + column, stride);
      _tile_stored(3, out + 16 * d + column + 16, stride);
    }
  }

  static void Weigh(const Element* probabilities, int rows, int d, const std::byte* const* values, int key_count,
                    float* out) {
    MemoryBarrier();
    const int tiles = (key_count + 31) / 32;
    if (rows > 16) return WeighTwo(probabilities, d, values, tiles, out);
    const int stride = d * static_cast<int>(sizeof(float));
    int column = 0;
    for (; column + 64 <= d; column += 64) {
      const int offset = column * 64;  // bytes: 16 columns take 1024
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      for (int t = 0; t < tiles; ++t) {
        _tile_loadd(4, probabilities + t * 512, 64);
        _tile_loadd(6, values[t] + offset, 64);
        _tile_loadd(7, values[t] + offset + 1024, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(6, values[t] + offset + 2048, 64);
        _tile_loadd(7, values[t] + offset + 3072, 64);
        _tile_dpbf16ps(2, 4, 6);
        _tile_dpbf16ps(3, 4, 7);
      }
      _tile_stored(0, out + column, stride);
      _tile_stored(1, out + column + 16, stride);
      _tile_stored(2, out + column + 32, stride);
      _tile_stored(3, out + column + 48, stride);
    }
    if (column == d) return;
    _tile_zero(0);
    _tile_zero(1);
    for (int t = 0; t < tiles; ++t) {
      _tile_loadd(4, probabilities + t * 512, 64);
      _tile_loadd(6, values[t] + column * 64, 64);
      _tile_loadd(7, values[t] + column * 64 + 1024, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, out + column, stride);
    _tile_stored(1, out + column + 16, stride);
  }
};

}  // namespace

AttentionKernel AttentionAmx() { return KernelOf<TileEngine>("amx/bf16t"); }

}  // namespace skein::kernels
