// SPDX-License-Identifier: Apache-2.0
//
// The walk of attention over chunks of rows, splits of keys and groups of rows, with softmax and fold, over V16.
// Included by the attention units, which their flags make different; everything here has internal linkage.
//
// An Engine multiplies: it packs queries as it likes them, gives scores of a group of at most 32 rows with tiles of 16
// keys, and the weighted sum of values. It has
//   using Element: of packed queries and probabilities; kExact: F32 keys and values, nothing is rounded
//   kWholeValueTiles: it multiplies all 32 keys of the last value tile, absent ones must be zeros
//   kPreferredRows
//   QueryPlace(d, row, dim), ProbabilityPlace(row, key): where an element stands; 16 consecutive ones stay together
//   StoreElements(place, V16): writes 16 of them, rounded
//   Scores(queries, rows, d, keys, tiles, scores), Weigh(probabilities, rows, d, values, key_count, out)
// Scores of row r with key tile t stand at t * kScoreTile + r * 16; out is [rows][d].
#pragma once

#include "kernels/attention/attention_store_impl.h"

namespace skein::kernels {
namespace {

constexpr int kGroupRows = 32;   // rows that go through softmax together
constexpr int kChunkRows = 128;  // rows that share a pass over the keys
constexpr int kScoreTile = kGroupRows * 16 + 16;
constexpr int kSplitTiles = kSplitKeys / 16;

// Memory of a call, carved from the caller's scratch.
template <typename Engine>
struct Workspace {
  using Element = typename Engine::Element;
  Element* queries;        // [kChunkRows][d]
  Element* probabilities;  // [kGroupRows][kSplitKeys]
  float* scores;           // [kSplitTiles][kScoreTile]
  float* split_out;        // [kGroupRows][d]
  float* out;              // [kChunkRows][d], the running fold
  float* maxima;           // [kChunkRows], of the fold
  float* sums;             // [kChunkRows]
  std::byte* keys;         // converted key tiles of a split
  std::byte* values;       // converted value tiles

  static constexpr std::size_t kConverted = Engine::kExact ? 4 : 2;  // bytes of a converted element

  Workspace(std::byte* scratch, int d) {
    const auto take = [&](std::size_t bytes) {
      std::byte* piece = scratch;
      scratch += (bytes + 63) / 64 * 64;
      return piece;
    };
    const auto dims = static_cast<std::size_t>(d);
    queries = reinterpret_cast<Element*>(take(kChunkRows * dims * sizeof(Element)));
    probabilities = reinterpret_cast<Element*>(take(kGroupRows * kSplitKeys * sizeof(Element)));
    scores = reinterpret_cast<float*>(take(kSplitTiles * kScoreTile * sizeof(float)));
    split_out = reinterpret_cast<float*>(take(kGroupRows * dims * sizeof(float)));
    out = reinterpret_cast<float*>(take(kChunkRows * dims * sizeof(float)));
    maxima = reinterpret_cast<float*>(take(kChunkRows * sizeof(float)));
    sums = reinterpret_cast<float*>(take(kChunkRows * sizeof(float)));
    keys = take(kSplitKeys * dims * kConverted);
    values = take(kSplitKeys * dims * kConverted);
  }
  static std::size_t Bytes(const KvLayout& layout) {
    const auto d = static_cast<std::size_t>(layout.padded_head_dim());
    return d * (kChunkRows * (sizeof(Element) + 4) + kGroupRows * 4 + 2 * kSplitKeys * kConverted) +
           kGroupRows * kSplitKeys * sizeof(Element) + kSplitTiles * kScoreTile * 4 + kChunkRows * 8 + 9 * 64;
  }
};

// The keys of one split that a chunk of rows needs.
struct SplitKeys {
  const std::byte* keys[kSplitTiles];          // tiles of 16 keys
  const std::byte* values[kSplitTiles / 2];    // tiles of 32 keys
  const float* key_scales[kSplitTiles];        // INT8: of 16 keys
  const float* value_scales[kSplitTiles];
};

SKEIN_V16_INLINE void WidenInt8(const std::byte* from, int elements, std::byte* into) {
  for (int i = 0; i < elements; i += 16) {
    StoreBf16(reinterpret_cast<std::uint16_t*>(into) + i, FromInt8(reinterpret_cast<const std::int8_t*>(from) + i));
  }
}

// F32 keys [16][d] become [d][16].
void TransposeKeys(const float* from, int d, float* into) {
  for (int key = 0; key < 16; ++key) {
    for (int dim = 0; dim < d; ++dim) into[dim * 16 + key] = from[key * d + dim];
  }
}

// Finds the tiles of keys [0, count) of a split, converting what the engine cannot read as it is stored.
template <typename Engine>
void FindKeys(const AttentionBlock& block, int split, int count, const Workspace<Engine>& space, SplitKeys& found) {
  const KvLayout& layout = block.layout;
  const int d = layout.padded_head_dim();
  const std::size_t element = Engine::kExact ? 4 : layout.type == KvType::kInt8 ? 1 : 2;
  const auto tile_bytes = static_cast<std::size_t>(16 * d) * element;
  const auto converted_bytes = static_cast<std::size_t>(16 * d) * Workspace<Engine>::kConverted;
  for (int tile = 0; tile * 16 < count; ++tile) {
    const std::byte* frame = block.frames[split * (kSplitKeys / kFrameTokens) + tile / 4];
    const std::byte* stored_keys = frame + static_cast<std::size_t>(tile % 4) * tile_bytes;
    const std::byte* stored_values = frame + layout.v_offset() + static_cast<std::size_t>(tile % 4 / 2 * 2) * tile_bytes;
    std::byte* keys = space.keys + static_cast<std::size_t>(tile) * converted_bytes;
    std::byte* values = space.values + static_cast<std::size_t>(tile) * converted_bytes;
    if constexpr (Engine::kExact) {
      TransposeKeys(reinterpret_cast<const float*>(stored_keys), d, reinterpret_cast<float*>(keys));
      found.keys[tile] = keys;
      if (tile % 2 == 0) found.values[tile / 2] = stored_values;
      continue;
    }
    const bool int8 = layout.type == KvType::kInt8;
    // Of the last tile of values the second quarter may never have been written.
    const bool half = tile % 2 == 0 && count - tile * 16 <= 16;
    found.keys[tile] = int8 ? keys : stored_keys;
    if (tile % 2 == 0) found.values[tile / 2] = stored_values;
    if (int8) {
      const float* scales = reinterpret_cast<const float*>(frame + layout.scales_offset());
      found.key_scales[tile] = scales + tile % 4 * 16;
      found.value_scales[tile] = scales + kFrameTokens + tile % 4 * 16;
      WidenInt8(stored_keys, 16 * d, keys);
    }
    if (tile % 2 == 0 && (int8 || (half && Engine::kWholeValueTiles))) {
      found.values[tile / 2] = values;
      for (int columns = 0; columns < d / 16; ++columns) {
        std::byte* into = values + columns * 1024;
        const std::byte* from = stored_values + static_cast<std::size_t>(columns) * 512 * element;
        const int written = half ? 256 : 512;
        if (int8) {
          WidenInt8(from, written, into);
        } else {
          std::memcpy(into, from, static_cast<std::size_t>(written) * 2);
        }
        if (half) std::memset(into + 512, 0, 512);
      }
    }
  }
  // Engines read key tiles in pairs (of one frame); the scores of an absent tile are never looked at.
  const int tiles = (count + 15) / 16;
  if (tiles % 2 != 0) found.keys[tiles] = found.keys[tiles - 1];
}

struct RowSplit {
  float maximum, sum;
};

// Softmax of one row over `visible` keys of a split against the split's own maximum; writes probabilities of `tiles`
// tiles, zero for keys that the row does not see.
template <typename Engine, bool kInt8>
SKEIN_V16_INLINE RowSplit SoftmaxRow(const float* scores, int row, int visible, int tiles, float scale,
                                     const SplitKeys& keys, typename Engine::Element* probabilities) {
  const V16 scales = Set(scale);
  const int full = visible / 16, rest = visible % 16;
  const float* row_scores = scores + row * 16;
  const auto score = [&](int tile) {
    V16 s = Load(row_scores + tile * kScoreTile);
    if constexpr (kInt8) s = Mul(s, Load(keys.key_scales[tile]));
    return Mul(s, scales);
  };
  const V16 lowest = Set(-__builtin_huge_valf());
  V16 a = lowest, b = lowest;
  int tile = 0;
  for (; tile + 2 <= full; tile += 2) {
    a = Max(score(tile), a);
    b = Max(score(tile + 1), b);
  }
  if (tile < full) a = Max(score(tile), a);
  if (rest > 0) b = Max(SelectFirst(score(full), rest, lowest), b);
  const float maximum = ReduceMax(Max(a, b));
  const V16 away = Set(maximum);
  V16 sum = Zero();
  const auto write = [&](int at, V16 p) { Engine::StoreElements(probabilities + Engine::ProbabilityPlace(row, at * 16), p); };
  for (tile = 0; tile < full; ++tile) {
    V16 p = ExpOfNegative(Sub(score(tile), away));
    sum = Add(sum, p);
    if constexpr (kInt8) p = Mul(p, Load(keys.value_scales[tile]));
    write(tile, p);
  }
  if (rest > 0) {
    V16 p = KeepFirst(ExpOfNegative(Sub(score(full), away)), rest);
    sum = Add(sum, p);
    if constexpr (kInt8) p = KeepFirst(Mul(p, Load(keys.value_scales[full])), rest);
    write(full, p);
  }
  for (tile = full + (rest > 0 ? 1 : 0); tile < tiles; ++tile) write(tile, Zero());
  return {maximum, ReduceAdd(sum)};
}

// One split for a group of rows: maxima and sums per row, and split_out.
template <typename Engine>
void AttendGroup(const AttentionBlock& block, const Workspace<Engine>& space, const SplitKeys& keys, int first_row,
                 int rows, const int* visible, float* maxima, float* sums) {
  const int d = block.layout.padded_head_dim();
  int key_count = 0;
  for (int row = 0; row < rows; ++row) key_count = visible[row] > key_count ? visible[row] : key_count;
  const int tiles = (key_count + 31) / 32 * 2;
  Engine::Scores(space.queries + Engine::QueryPlace(d, first_row, 0), rows, d, keys.keys, tiles, space.scores);
  for (int row = 0; row < rows; ++row) {
    const RowSplit result =
        block.layout.type == KvType::kInt8
            ? SoftmaxRow<Engine, true>(space.scores, row, visible[row], tiles, block.scale, keys, space.probabilities)
            : SoftmaxRow<Engine, false>(space.scores, row, visible[row], tiles, block.scale, keys, space.probabilities);
    maxima[row] = result.maximum;
    sums[row] = result.sum;
  }
  Engine::Weigh(space.probabilities, rows, d, keys.values, key_count, space.split_out);
}

// Factors of a fold step for 16 rows; maxima and sums become those after it.
SKEIN_V16_INLINE void FoldFactors(const float* split_maxima, const float* split_sums, float* maxima, float* sums,
                                  float* keep, float* take) {
  const V16 now = Load(maxima), split = Load(split_maxima);
  const V16 higher = Max(split, now);
  const V16 k = ExpOfNegative(Sub(now, higher)), t = ExpOfNegative(Sub(split, higher));
  Store(sums, Fma(Load(split_sums), t, Mul(Load(sums), k)));
  Store(maxima, higher);
  Store(keep, k);
  Store(take, t);
}

// Rows [row, row + rows) of a block: how many keys of a split each sees.
SKEIN_V16_INLINE void CountVisible(const AttentionBlock& block, int split, int row, int rows, int* visible) {
  int token = row / block.group, head = row % block.group;
  for (int i = 0; i < rows; ++i) {
    const int keys = block.first_position + token + 1 - split * kSplitKeys;
    visible[i] = keys < 0 ? 0 : keys > kSplitKeys ? kSplitKeys : keys;
    if (++head == block.group) head = 0, ++token;
  }
}

template <typename Engine>
void PackQueries(const AttentionBlock& block, int first_row, int rows, const Workspace<Engine>& space) {
  const int head_dim = block.layout.head_dim, d = block.layout.padded_head_dim();
  int token = first_row / block.group, head = first_row % block.group;
  for (int row = 0; row < rows; ++row) {
    const float* query = block.queries + token * block.query_stride + head * head_dim;
    for (int dim = 0; dim < d; dim += 16) {
      Engine::StoreElements(space.queries + Engine::QueryPlace(d, row, dim), LoadDims(query, dim, head_dim));
    }
    if (++head == block.group) head = 0, ++token;
  }
}

template <typename Engine>
void Attend(const AttentionBlock& block, float* out, std::ptrdiff_t out_stride, std::byte* scratch) {
  const int head_dim = block.layout.head_dim, d = block.layout.padded_head_dim();
  const Workspace<Engine> space(scratch, d);
  const int all_rows = block.tokens * block.group;
  for (int chunk = 0; chunk < all_rows; chunk += kChunkRows) {
    const int chunk_rows = all_rows - chunk < kChunkRows ? all_rows - chunk : kChunkRows;
    PackQueries<Engine>(block, chunk, chunk_rows, space);
    for (int row = 0; row < kChunkRows; row += 16) {
      Store(space.maxima + row, Set(-__builtin_huge_valf()));
      Store(space.sums + row, Zero());
    }
    const int all_keys = block.first_position + (chunk + chunk_rows - 1) / block.group + 1;
    for (int split = 0; split * kSplitKeys < all_keys; ++split) {
      const int left = all_keys - split * kSplitKeys;
      SplitKeys keys;
      FindKeys<Engine>(block, split, left < kSplitKeys ? left : kSplitKeys, space, keys);
      for (int group = 0; group < chunk_rows; group += kGroupRows) {
        const int rows = chunk_rows - group < kGroupRows ? chunk_rows - group : kGroupRows;
        int visible[kGroupRows];
        CountVisible(block, split, chunk + group, rows, visible);
        if (visible[rows - 1] == 0) continue;
        alignas(64) float maxima[kGroupRows] = {}, sums[kGroupRows] = {}, keep[kGroupRows], take[kGroupRows];
        AttendGroup<Engine>(block, space, keys, group, rows, visible, maxima, sums);
        for (int i = 0; i < rows; i += 16) {
          FoldFactors(maxima + i, sums + i, space.maxima + group + i, space.sums + group + i, keep + i, take + i);
        }
        for (int i = 0; i < rows; ++i) {
          if (visible[i] == 0) continue;
          const V16 k = Set(keep[i]), t = Set(take[i]);
          float* running = space.out + (group + i) * d;
          const float* added = space.split_out + i * d;
          for (int dim = 0; dim < d; dim += 16) {
            const V16 old = split == 0 ? Zero() : Mul(Load(running + dim), k);
            Store(running + dim, Fma(Load(added + dim), t, old));
          }
        }
      }
    }
    int token = chunk / block.group, head = chunk % block.group;
    for (int row = 0; row < chunk_rows; ++row) {
      float* into = out + token * out_stride + head * head_dim;
      const V16 reciprocal = Set(1.0f / space.sums[row]);
      int dim = 0;
      for (; dim + 16 <= head_dim; dim += 16) Store(into + dim, Mul(Load(space.out + row * d + dim), reciprocal));
      if (dim < head_dim) StorePartial(into + dim, Mul(Load(space.out + row * d + dim), reciprocal), head_dim - dim);
      if (++head == block.group) head = 0, ++token;
    }
  }
}

template <typename Engine>
void AttendSplits(const AttentionBlock& block, int begin, int end, float* partials, std::byte* scratch) {
  const int head_dim = block.layout.head_dim, d = block.layout.padded_head_dim();
  const Workspace<Engine> space(scratch, d);
  const int all_rows = block.tokens * block.group;
  for (int chunk = 0; chunk < all_rows; chunk += kChunkRows) {
    const int chunk_rows = all_rows - chunk < kChunkRows ? all_rows - chunk : kChunkRows;
    PackQueries<Engine>(block, chunk, chunk_rows, space);
    const int all_keys = block.first_position + (chunk + chunk_rows - 1) / block.group + 1;
    for (int split = begin; split < end; ++split) {
      const int left = all_keys - split * kSplitKeys;
      SplitKeys keys;
      if (left > 0) FindKeys<Engine>(block, split, left < kSplitKeys ? left : kSplitKeys, space, keys);
      for (int group = 0; group < chunk_rows; group += kGroupRows) {
        const int rows = chunk_rows - group < kGroupRows ? chunk_rows - group : kGroupRows;
        int visible[kGroupRows];
        float maxima[kGroupRows], sums[kGroupRows];
        CountVisible(block, split, chunk + group, rows, visible);
        if (visible[rows - 1] > 0) AttendGroup<Engine>(block, space, keys, group, rows, visible, maxima, sums);
        for (int i = 0; i < rows; ++i) {
          const auto row = static_cast<std::ptrdiff_t>(split - begin) * all_rows + chunk + group + i;
          float* partial = partials + row * (2 + head_dim);
          const bool any = visible[i] > 0;
          partial[0] = any ? maxima[i] : -__builtin_huge_valf();
          partial[1] = any ? sums[i] : 0.0f;
          for (int dim = 0; dim < head_dim; ++dim) partial[2 + dim] = any ? space.split_out[i * d + dim] : 0.0f;
        }
      }
    }
  }
}

void Fold(const AttentionBlock& block, int splits, const float* partials, float* out, std::ptrdiff_t out_stride) {
  const int head_dim = block.layout.head_dim;
  const int rows = block.tokens * block.group;
  for (int row = 0; row < rows; ++row) {
    float* into = out + row / block.group * out_stride + row % block.group * head_dim;
    float maximum = -__builtin_huge_valf(), sum = 0.0f;
    for (int dim = 0; dim < head_dim; dim += 16) {
      const int n = head_dim - dim < 16 ? head_dim - dim : 16;
      n == 16 ? Store(into + dim, Zero()) : StorePartial(into + dim, Zero(), n);
    }
    for (int split = 0; split < splits; ++split) {
      const float* partial = partials + (static_cast<std::ptrdiff_t>(split) * rows + row) * (2 + head_dim);
      if (partial[0] == -__builtin_huge_valf()) continue;  // no visible key
      alignas(64) float maxima[16], sums[16], keep[16], take[16];
      Store(maxima, Set(maximum));
      Store(sums, Set(sum));
      alignas(64) float split_maxima[16], split_sums[16];
      Store(split_maxima, Set(partial[0]));
      Store(split_sums, Set(partial[1]));
      FoldFactors(split_maxima, split_sums, maxima, sums, keep, take);
      maximum = maxima[0], sum = sums[0];
      const V16 k = Set(keep[0]), t = Set(take[0]);
      for (int dim = 0; dim < head_dim; dim += 16) {
        const V16 folded = Fma(LoadDims(partial + 2, dim, head_dim), t, Mul(LoadDims(into, dim, head_dim), k));
        head_dim - dim >= 16 ? Store(into + dim, folded) : StorePartial(into + dim, folded, head_dim - dim);
      }
    }
    const V16 reciprocal = Set(1.0f / sum);
    for (int dim = 0; dim < head_dim; dim += 16) {
      const V16 scaled = Mul(LoadDims(into, dim, head_dim), reciprocal);
      head_dim - dim >= 16 ? Store(into + dim, scaled) : StorePartial(into + dim, scaled, head_dim - dim);
    }
  }
}

template <typename Engine>
AttentionKernel KernelOf(std::string_view name) {
  return {.name = name,
          .store = StoreToken,
          .attend = Attend<Engine>,
          .attend_splits = AttendSplits<Engine>,
          .fold = Fold,
          .scratch_bytes = Workspace<Engine>::Bytes,
          .preferred_rows = Engine::kPreferredRows};
}

}  // namespace
}  // namespace skein::kernels
