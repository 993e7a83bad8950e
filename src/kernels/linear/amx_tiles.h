// SPDX-License-Identifier: Apache-2.0
//
// Tile instructions (Intel SDM, AMX) as statements with a memory clobber: compilers' own intrinsics do not say that they
// read or write memory (g++ 12 drops stores to a tile configuration because of that). Tile numbers are literals.
// Included only by files compiled for AMX.
#pragma once

#include <cstddef>
#include <cstdint>

#define SKEIN_TILE_LOAD(tile, base, stride)                                                                     \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(static_cast<const void*>(base)),                    \
                   "r"(static_cast<std::ptrdiff_t>(stride))                                                     \
                   : "memory")
// The same with the hint that the data is used once.
#define SKEIN_TILE_LOAD_ONCE(tile, base, stride)                                                                \
  __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #tile ::"r"(static_cast<const void*>(base)),                  \
                   "r"(static_cast<std::ptrdiff_t>(stride))                                                     \
                   : "memory")
#define SKEIN_TILE_STORE(tile, base, stride)                                                                    \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(static_cast<void*>(base)),                      \
                   "r"(static_cast<std::ptrdiff_t>(stride))                                                     \
                   : "memory")
#define SKEIN_TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile ::: "memory")
// c += a * b, fp32 += bf16 pairs.
#define SKEIN_TILE_BF16(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::: "memory")

namespace skein::kernels {

// What ldtilecfg reads: palette 1, then bytes per row and rows of each of eight tiles.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

static inline void LoadTileConfig(const TileConfig& config) { __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory"); }

}  // namespace skein::kernels
