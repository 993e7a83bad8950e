// SPDX-License-Identifier: Apache-2.0
//
// The ceiling of AMX tiles: four tiles of sums, operands loaded once.
#include "kernels/ceilings/ceilings_paths.h"
#include "kernels/linear/amx_tiles.h"

namespace skein::kernels {
namespace {

constexpr TileConfig MakeConfig() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = 64;
    config.rows[tile] = 16;
  }
  return config;
}
constexpr TileConfig kConfig = MakeConfig();

// bf16 numbers of about 1, all bits of the mantissa in use.
struct alignas(64) Operand {
  std::uint16_t values[16 * 32];
};
constexpr Operand MakeOperand(std::uint32_t state) {
  Operand operand{};
  for (std::uint16_t& value : operand.values) {
    state = state * 1664525u + 1013904223u;  // Numerical Recipes' generator
    value = static_cast<std::uint16_t>(0x3f00u | (state >> 24) | (state >> 8 & 0x8000u));
  }
  return operand;
}
constexpr Operand kOperands[4] = {MakeOperand(1), MakeOperand(2), MakeOperand(3), MakeOperand(4)};

void Bf16(std::int64_t rounds) {
  LoadTileConfig(kConfig);
  SKEIN_TILE_ZERO(0);
  SKEIN_TILE_ZERO(1);
  SKEIN_TILE_ZERO(2);
  SKEIN_TILE_ZERO(3);
  SKEIN_TILE_LOAD(4, &kOperands[0], 64);
  SKEIN_TILE_LOAD(5, &kOperands[1], 64);
  SKEIN_TILE_LOAD(6, &kOperands[2], 64);
  SKEIN_TILE_LOAD(7, &kOperands[3], 64);
  for (std::int64_t i = 0; i < rounds; ++i) {
    SKEIN_TILE_BF16(0, 4, 6);
    SKEIN_TILE_BF16(1, 4, 7);
    SKEIN_TILE_BF16(2, 5, 6);
    SKEIN_TILE_BF16(3, 5, 7);
  }
  __asm__ volatile("tilerelease" ::: "memory");
}

}  // namespace

ComputeCeiling CeilingAmxBf16() { return {"bf16", "tdpbf16ps (tiles)", 4.0 * 16 * 16 * 32 * 2, Bf16}; }

}  // namespace skein::kernels
