// SPDX-License-Identifier: Apache-2.0
//
// The walk of attention over chunks of rows, splits of keys and groups of rows, with softmax and fold, over V16.
// Included by the attention units, which their flags make different; everything here has internal linkage.
//
// An Engine multiplies: it packs queries as it likes them, gives scores of a group of at most kGroupRows rows with
// tiles of 16 keys, and the weighted sum of values. It has
//   using Element: of packed queries and probabilities; kExact: F32 keys and values, nothing is rounded
//   kWholeValueTiles: it multiplies all 32 keys of the last value tile, absent ones must be zeros
//   kGroupRows; kFewApart: does few rows (kFewRows) by another walk, whose speed is that of memory
//   QueryPlace(d, row, dim): where an element stands; 16 consecutive ones stay together
//   ProbabilityPlace(row), kProbabilityStep: where a row's probabilities begin, and the way from one 32 to the next
//   StoreElements(place, V16): writes 16 of them, rounded; StorePair(place, V16, V16): 32
//   Begin(rows) before a chunk, Scores(queries, rows, d, keys, tiles, scores),
//   Weigh(probabilities, rows, d, values, key_count, out), StayAwake() now and then during softmax
//   with kFewApart: kTouchesKeys, it reads keys in order before it multiplies them; ScoresInOrder, Scores tile by tile;
//   ScoresNear, Scores of what lies in L1; WeighTile(probabilities, rows, d, value_tile, keys, first, out), Weigh of
//   one tile, added to out unless it is the first
// Scores of row r with key tile t stand at t * ScoreTile<Engine>() + r * 16; split_out is [rows][d].
#pragma once

#include <type_traits>

#include "kernels/attention/attention_store_impl.h"

namespace skein::kernels {
namespace {

constexpr int kChunkRows = 128;  // rows that share a pass over the keys
constexpr int kMostGroupRows = 32;
constexpr int kFewRows = 8;  // up to here a chunk waits for memory more than for products
constexpr int kSplitTiles = kSplitKeys / 16;

// Floats from a tile of scores to the next; a cache line more than needed, so that a row's do not share a cache set.
template <typename Engine>
constexpr int ScoreTile() {
  return Engine::kGroupRows * 16 + 16;
}

template <typename Engine>
constexpr bool IsFew(int rows) {
  return Engine::kFewApart && rows <= kFewRows;
}

// Memory of a call, carved from the caller's scratch.
template <typename Engine>
struct Workspace {
  using Element = typename Engine::Element;
  Element* queries;        // [kChunkRows][d]
  Element* probabilities;  // [kGroupRows][kSplitKeys]
  float* scores;           // [kSplitTiles][ScoreTile]
  float* split_out;        // [kGroupRows][d]
  float* out;              // [kChunkRows][d], the running fold
  float* maxima;           // [kChunkRows], of the fold
  float* sums;             // [kChunkRows]
  std::byte* keys;         // converted key tiles of a split
  std::byte* values;       // converted value tiles

  static constexpr int kGroupRows = Engine::kGroupRows;
  static constexpr std::size_t kScoreBytes = kSplitTiles * ScoreTile<Engine>() * sizeof(float);
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
    scores = reinterpret_cast<float*>(take(kScoreBytes));
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
           kGroupRows * kSplitKeys * sizeof(Element) + kScoreBytes + kChunkRows * 8 + 9 * 64;
  }
};

// The keys of one split that a chunk of rows needs.
struct SplitKeys {
  const std::byte* keys[kSplitTiles];               // tiles of 16 keys
  const std::byte* values[kSplitTiles / 2];         // tiles of 32 keys
  int value_lines[kSplitTiles / 2];                 // cache lines from there to the end of the tile
  const std::byte* second_halves[kSplitTiles / 2];  // of value tiles left as they are stored, nullptr: absent
  const float* key_scales[kSplitTiles];             // INT8 and FP8: of 16 keys
  const float* value_scales[kSplitTiles];
};

// Stored bytes become bf16, exactly. Requires: `elements` is a multiple of 64.
#if defined(__AVX512VBMI__)
struct ByteTable {
  alignas(64) std::uint8_t low[128];  // of the bf16 of a magnitude
  alignas(64) std::uint8_t high[128];
  constexpr explicit ByteTable(KvType type) : low(), high() {
    for (int i = 0; i < 128; ++i) {
      const float value = type == KvType::kFp8 ? FloatFromE4M3(static_cast<std::uint8_t>(i)) : static_cast<float>(i);
      const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
      low[i] = static_cast<std::uint8_t>(bits >> 16);
      high[i] = static_cast<std::uint8_t>(bits >> 24);
    }
  }
};
constexpr ByteTable kInt8Table(KvType::kInt8), kFp8Table(KvType::kFp8);

template <KvType type>
SKEIN_V16_INLINE void WidenBytesOf(const std::byte* from, int elements, std::byte* into) {
  constexpr const ByteTable& kTable = type == KvType::kFp8 ? kFp8Table : kInt8Table;
  const __m512i low0 = _mm512_load_si512(kTable.low), low1 = _mm512_load_si512(kTable.low + 64);
  const __m512i high0 = _mm512_load_si512(kTable.high), high1 = _mm512_load_si512(kTable.high + 64);
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);  // so that unpacking leaves elements in order
  const __m512i sign = _mm512_set1_epi8(-128);
  for (int i = 0; i < elements; i += 64) {
    const __m512i q = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(from + i));
    // The index is seven bits: of E4M3 the sign falls away.
    const __m512i magnitude = type == KvType::kFp8 ? q : _mm512_abs_epi8(q);
    const __m512i low = _mm512_permutex2var_epi8(low0, magnitude, low1);
    // Bits of the table, but for the sign: (entry & ~sign) | (q & sign).
    const __m512i high = _mm512_ternarylogic_epi32(sign, q, _mm512_permutex2var_epi8(high0, magnitude, high1), 0xca);
    _mm512_storeu_si512(into + 2 * i, _mm512_unpacklo_epi8(low, high));
    _mm512_storeu_si512(into + 2 * i + 64, _mm512_unpackhi_epi8(low, high));
  }
}
#else
template <KvType type>
SKEIN_V16_INLINE void WidenBytesOf(const std::byte* from, int elements, std::byte* into) {
  for (int i = 0; i < elements; i += 16) {
    const V16 x = type == KvType::kFp8 ? FromE4M3(reinterpret_cast<const std::uint8_t*>(from) + i)
                                       : FromInt8(reinterpret_cast<const std::int8_t*>(from) + i);
    StoreBf16(reinterpret_cast<std::uint16_t*>(into) + i, x);
  }
}
#endif

SKEIN_V16_INLINE void WidenBytes(KvType type, const std::byte* from, int elements, std::byte* into) {
  type == KvType::kFp8 ? WidenBytesOf<KvType::kFp8>(from, elements, into)
                       : WidenBytesOf<KvType::kInt8>(from, elements, into);
}

// F32 keys [16][d] become [d][16].
[[maybe_unused]] void TransposeKeys(const float* from, int d, float* into) {
  for (int key = 0; key < 16; ++key) {
    for (int dim = 0; dim < d; ++dim) into[dim * 16 + key] = from[key * d + dim];
  }
}

// Where block b of a (layer, KV head) stands.
struct Quarter {
  const std::byte* frame;
  int index;  // in the frame
};
Quarter QuarterOf(const AttentionBlock& block, std::size_t frame_bytes, int place) {
  const std::uint32_t b = block.blocks[place].value;
  return {block.frames + b / kFrameBlocks * frame_bytes, static_cast<int>(b % kFrameBlocks)};
}

// Where half a tile of values (16 keys) begins. Halves of a tile interleave by 16 columns, but for F32.
SKEIN_V16_INLINE const std::byte* HalfOf(const KvLayout& layout, Quarter quarter) {
  const int d = layout.padded_head_dim();
  const std::size_t element = HasScales(layout.type) ? 1 : 2;
  return quarter.frame + layout.v_offset() +
         static_cast<std::size_t>(quarter.index / 2 * 32 * d + quarter.index % 2 * 256) * element;
}

// Half a tile of values to `into`, converted.
template <typename Engine>
void TakeValues(const KvLayout& layout, Quarter quarter, std::byte* into) {
  const int d = layout.padded_head_dim();
  if constexpr (Engine::kExact) {
    const auto size = static_cast<std::size_t>(16 * d) * 4;
    std::memcpy(into, quarter.frame + layout.v_offset() + static_cast<std::size_t>(quarter.index) * size, size);
    return;
  }
  const bool bytes = HasScales(layout.type);
  const std::size_t element = bytes ? 1 : 2;
  const std::byte* stored = HalfOf(layout, quarter);
  for (int columns = 0; columns < d / 16; ++columns) {
    const std::byte* from = stored + static_cast<std::size_t>(columns) * 512 * element;
    if (bytes) {
      WidenBytes(layout.type, from, 256, into + columns * 1024);
    } else {
      std::memcpy(into + columns * 1024, from, 512);
    }
  }
}

// Finds the tiles of keys [0, count) of a split, converting what the engine cannot read as it is stored, and putting
// halves of value tiles side by side that stand apart. With `as_stored` bytes are left to MultiplyFew.
template <typename Engine>
void FindKeys(const AttentionBlock& block, int split, int count, bool as_stored, const Workspace<Engine>& space,
              SplitKeys& found) {
  const KvLayout& layout = block.layout;
  const int d = layout.padded_head_dim();
  const std::size_t frame_bytes = layout.frame_bytes();
  const bool bytes = HasScales(layout.type);
  const std::size_t element = Engine::kExact ? 4 : bytes ? 1 : 2;
  const auto tile_bytes = static_cast<std::size_t>(16 * d) * element;
  const auto converted_bytes = static_cast<std::size_t>(16 * d) * Workspace<Engine>::kConverted;
  const int tiles = (count + 15) / 16;
  const auto find_keys = [&](int tile) {
    const Quarter quarter = QuarterOf(block, frame_bytes, split * kSplitTiles + tile);
    const std::byte* stored = quarter.frame + static_cast<std::size_t>(quarter.index) * tile_bytes;
    std::byte* keys = space.keys + static_cast<std::size_t>(tile) * converted_bytes;
    found.keys[tile] = keys;
    if constexpr (Engine::kExact) {
      TransposeKeys(reinterpret_cast<const float*>(stored), d, reinterpret_cast<float*>(keys));
    } else if (bytes) {
      if (as_stored) {
        found.keys[tile] = stored;
      } else {
        WidenBytes(layout.type, stored, 16 * d, keys);
      }
      const float* scales = reinterpret_cast<const float*>(quarter.frame + layout.scales_offset());
      found.key_scales[tile] = scales + quarter.index * 16;
      found.value_scales[tile] = scales + kFrameTokens + quarter.index * 16;
    } else {
      found.keys[tile] = stored;
    }
  };
  // A tile of values is read as it stands when both halves are there, in order; an absent half must be zeros, since its
  // place may hold keys of others.
  const auto find_values = [&](int tile) {
    const Quarter quarter = QuarterOf(block, frame_bytes, split * kSplitTiles + tile);
    const bool whole = tile + 1 < tiles;
    const std::uint32_t at = block.blocks[split * kSplitTiles + tile].value;
    const bool in_order = whole && at % 2 == 0 && block.blocks[split * kSplitTiles + tile + 1].value == at + 1;
    if (!bytes && (in_order || (!whole && !Engine::kWholeValueTiles))) {
      const int place = Engine::kExact ? quarter.index * 16 * d : quarter.index / 2 * 32 * d + quarter.index % 2 * 256;
      found.values[tile / 2] = quarter.frame + layout.v_offset() + static_cast<std::size_t>(place) * element;
      found.value_lines[tile / 2] =
          d - (whole ? 0 : quarter.index % 2 * 8);  // a second half begins 512 bytes into its tile
      return;
    }
    if (bytes && as_stored) {
      const std::byte* first = HalfOf(layout, quarter);
      found.values[tile / 2] = first;
      found.second_halves[tile / 2] =
          whole ? HalfOf(layout, QuarterOf(block, frame_bytes, split * kSplitTiles + tile + 1)) : nullptr;
      found.value_lines[tile / 2] = d / 2 - quarter.index % 2 * 4;  // a second half begins 256 bytes into its tile
      return;
    }
    std::byte* values = space.values + static_cast<std::size_t>(tile) * converted_bytes;
    const std::size_t half = Engine::kExact ? converted_bytes : 512;
    found.values[tile / 2] = values;
    found.value_lines[tile / 2] = d;
    TakeValues<Engine>(layout, quarter, values);
    if (whole) {
      TakeValues<Engine>(layout, QuarterOf(block, frame_bytes, split * kSplitTiles + tile + 1), values + half);
    } else if constexpr (!Engine::kExact) {
      for (int columns = 0; columns < d / 16; ++columns) std::memset(values + columns * 1024 + 512, 0, 512);
    }
  };
  // In the order in which frames stand in memory.
  for (int frame = 0; frame < tiles; frame += kFrameBlocks) {
    const int end = tiles - frame < kFrameBlocks ? tiles : frame + kFrameBlocks;
    for (int tile = frame; tile < end; ++tile) find_keys(tile);
    for (int tile = frame; tile < end; tile += 2) find_values(tile);
  }
  // Engines read key tiles in pairs; the scores of an absent tile are never looked at.
  if (tiles % 2 != 0) {
    found.keys[tiles] = found.keys[tiles - 1];
    found.key_scales[tiles] = found.key_scales[tiles - 1];
    found.value_scales[tiles] = found.value_scales[tiles - 1];
  }
}

// How many keys of a split a row sees: of so many pairs of tiles all, of the next pair `low` and `high`.
struct Seen {
  int full, low, high;
  explicit Seen(int visible)
      : full(visible / 32), low(visible % 32 < 16 ? visible % 32 : 16), high(visible % 32 - low) {}
};

template <typename Engine, bool kScaled>
SKEIN_V16_INLINE V16 LoadScores(const float* row_scores, int tile, const SplitKeys& keys) {
  const V16 s = Load(row_scores + tile * ScoreTile<Engine>());
  if constexpr (kScaled) return Mul(s, Load(keys.key_scales[tile]));
  return s;
}

template <typename Engine, bool kScaled>
SKEIN_V16_INLINE float RowMaximum(const float* row_scores, int visible, const SplitKeys& keys) {
  const V16 lowest = Set(-__builtin_huge_valf());
  const Seen seen(visible);
  V16 a = lowest, b = lowest;
#pragma GCC unroll 8
  for (int pair = 0; pair < seen.full; ++pair) {
    a = Max(LoadScores<Engine, kScaled>(row_scores, 2 * pair, keys), a);
    b = Max(LoadScores<Engine, kScaled>(row_scores, 2 * pair + 1, keys), b);
  }
  if (seen.low > 0) {
    a = Max(SelectFirst(LoadScores<Engine, kScaled>(row_scores, 2 * seen.full, keys), seen.low, lowest), a);
    b = Max(SelectFirst(LoadScores<Engine, kScaled>(row_scores, 2 * seen.full + 1, keys), seen.high, lowest), b);
  }
  return ReduceMax(Max(a, b));
}

// Writes a row's probabilities of `pairs` pairs of tiles, zero for keys that it does not see, and returns their sum
// (before rounding). Scores come as exponents of two.
template <typename Engine, bool kScaled>
SKEIN_V16_INLINE float RowProbabilities(const float* row_scores, int visible, int pairs, float maximum,
                                        const SplitKeys& keys, typename Engine::Element* into) {
  const Seen seen(visible);
  const V16 back = Set(-maximum);
  const auto probability = [&](int tile) {
    return Exp2OfNegative<Engine::kExact>(Add(LoadScores<Engine, kScaled>(row_scores, tile, keys), back));
  };
  const auto weigh = [&](int tile, V16 p) {
    if constexpr (kScaled) return Mul(p, Load(keys.value_scales[tile]));
    return p;
  };
  V16 sum = Zero();
#pragma GCC unroll 4
  for (int pair = 0; pair < seen.full; ++pair) {
    const V16 p = probability(2 * pair);
    sum = Add(sum, p);
    const V16 q = probability(2 * pair + 1);
    sum = Add(sum, q);
    Engine::StorePair(into, weigh(2 * pair, p), weigh(2 * pair + 1, q));
    into += Engine::kProbabilityStep;
  }
  int pair = seen.full;
  if (seen.low > 0) {
    const V16 p = KeepFirst(probability(2 * pair), seen.low);
    sum = Add(sum, p);
    Engine::StoreElements(into, KeepFirst(weigh(2 * pair, p), seen.low));
    const V16 q = KeepFirst(probability(2 * pair + 1), seen.high);
    sum = Add(sum, q);
    Engine::StoreElements(into + 16, KeepFirst(weigh(2 * pair + 1, q), seen.high));
    into += Engine::kProbabilityStep;
    ++pair;
  }
  for (; pair < pairs; ++pair) {
    Engine::StoreElements(into, Zero());
    Engine::StoreElements(into + 16, Zero());
    into += Engine::kProbabilityStep;
  }
  return ReduceAdd(sum);
}

// Rows of a group and what is known of them after softmax.
struct Group {
  int first = 0;  // in the chunk
  int rows = 0;
  int key_count = 0;            // that the last row sees
  int visible[kMostGroupRows];  // keys that each row sees
  alignas(64) float maxima[kMostGroupRows], sums[kMostGroupRows];

  int tiles() const { return (key_count + 31) / 32 * 2; }  // of keys, even
};

// Group `index` of a chunk that begins with row `chunk` of the block.
SKEIN_V16_INLINE void FindGroup(const AttentionBlock& block, int split, int chunk, int first, int rows, Group& group) {
  group.first = first;
  group.rows = rows;
  int token = (chunk + first) / block.group, head = (chunk + first) % block.group;
  for (int i = 0; i < rows; ++i) {
    const int keys = block.first_position + token + 1 - split * kSplitKeys;
    group.visible[i] = keys < 0 ? 0 : keys > kSplitKeys ? kSplitKeys : keys;
    if (++head == block.group) head = 0, ++token;
  }
  group.key_count = group.visible[rows - 1];
  for (int i = 0; i < kMostGroupRows; i += 16) {
    Store(group.maxima + i, Zero());
    Store(group.sums + i, Zero());
  }
}

// Reads a byte of each of `lines` cache lines. (Asking for them by prefetch keeps fewer on their way: on Zen 4 23 us
// against 37 for a token's attention to 1024 positions of 3 KV heads.)
SKEIN_V16_INLINE void Touch(const std::byte* from, int lines) {
  for (int i = 0; i < lines; ++i) asm volatile("" : : "r"(from[i * 64]));
}

// Softmax of a group against the split's own maxima. All maxima come first: a row's exponentials would wait for the
// last comparison of its own.
template <typename Engine, bool kScaled>
void Softmax(const float* scores, const SplitKeys& keys, Group& group, typename Engine::Element* probabilities) {
  const int pairs = group.tiles() / 2;
  for (int row = 0; row < group.rows; ++row) {
    group.maxima[row] = RowMaximum<Engine, kScaled>(scores + row * 16, group.visible[row], keys);
  }
  for (int row = 0; row < group.rows; ++row) {
    if (row % 4 == 0) Engine::StayAwake();
    group.sums[row] = RowProbabilities<Engine, kScaled>(scores + row * 16, group.visible[row], pairs, group.maxima[row],
                                                        keys, probabilities + Engine::ProbabilityPlace(row));
  }
}

// The tiles of a frame for few rows: as they stand, one after the other; bytes widened into one place, which stays in
// L1, where the order is free.
template <typename Engine, bool kScaled>
SKEIN_V16_INLINE void ScoresOfFrame(KvType type, int d, const Workspace<Engine>& space, int rows,
                                    const std::byte* const* keys, int tiles, float* scores) {
  if constexpr (!kScaled && !Engine::kTouchesKeys) {
    return Engine::ScoresInOrder(space.queries, rows, d, keys, tiles, scores);
  }
  if constexpr (!kScaled) {
    for (int tile = 0; tile < tiles; ++tile) Touch(keys[tile], d / 2);
    return Engine::ScoresNear(space.queries, rows, d, keys, tiles, scores);
  }
  const std::byte* widened[kFrameBlocks];
  for (int tile = 0; tile < tiles; ++tile) {
    std::byte* place = space.keys + static_cast<std::ptrdiff_t>(tile) * 32 * d;
    widened[tile] = place;
    WidenBytes(type, keys[tile], 16 * d, place);
  }
  Engine::ScoresNear(space.queries, rows, d, widened, tiles, scores);
}

// A tile of values as the engine reads it.
template <typename Engine, bool kScaled>
SKEIN_V16_INLINE const std::byte* ValuesOf(KvType type, int d, const Workspace<Engine>& space, const SplitKeys& keys,
                                           int pair) {
  const std::byte* first = keys.values[pair];
  if constexpr (!kScaled) return first;
  const std::byte* second = keys.second_halves[pair];
  if (second == first + 256) {
    WidenBytes(type, first, 32 * d, space.values);
    return space.values;
  }
  for (int columns = 0; columns < d / 16; ++columns) {
    WidenBytes(type, first + columns * 512, 256, space.values + columns * 1024);
    if (second != nullptr) WidenBytes(type, second + columns * 512, 256, space.values + columns * 1024 + 512);
  }
  return space.values;
}

// One split for a few rows. Memory is what they wait for, and its prefetcher follows one stream: everything is read in
// the order in which it stands, the keys of a frame and then its values, which softmax has yet to make use of.
template <typename Engine, bool kScaled>
SKEIN_V16_INLINE void MultiplyFew(KvType type, int d, const Workspace<Engine>& space, const SplitKeys& keys,
                                  Group& group) {
  for (int tile = 0; tile < group.tiles(); tile += kFrameBlocks) {
    const int tiles = group.tiles() - tile < kFrameBlocks ? group.tiles() - tile : kFrameBlocks;
    ScoresOfFrame<Engine, kScaled>(type, d, space, group.rows, keys.keys + tile, tiles,
                                   space.scores + tile * ScoreTile<Engine>());
    for (int pair = tile / 2; pair < (tile + tiles) / 2; ++pair) Touch(keys.values[pair], keys.value_lines[pair]);
  }
  Softmax<Engine, kScaled>(space.scores, keys, group, space.probabilities);
  for (int key = 0; key < group.key_count; key += 32) {
    Engine::WeighTile(space.probabilities + key, group.rows, d,
                      ValuesOf<Engine, kScaled>(type, d, space, keys, key / 32),
                      group.key_count - key < 32 ? group.key_count - key : 32, key == 0, space.split_out);
  }
}

// One split for the rows of a chunk, a group after the other; take(group) uses split_out before the next.
template <typename Engine, typename Take>
SKEIN_V16_INLINE void MultiplyGroups(const AttentionBlock& block, const Workspace<Engine>& space, const SplitKeys& keys,
                                     int split, int chunk, int chunk_rows, Take take) {
  const int d = block.layout.padded_head_dim();
  const bool scaled = HasScales(block.layout.type);
  if constexpr (Engine::kFewApart) {
    if (IsFew<Engine>(chunk_rows)) {
      Group group;
      FindGroup(block, split, chunk, 0, chunk_rows, group);
      if (group.key_count > 0) {
        const KvType type = block.layout.type;
        scaled ? MultiplyFew<Engine, true>(type, d, space, keys, group)
               : MultiplyFew<Engine, false>(type, d, space, keys, group);
      }
      return take(group);
    }
  }
  Engine::Begin(chunk_rows);
  for (int first = 0; first < chunk_rows; first += Engine::kGroupRows) {
    Group group;
    FindGroup(block, split, chunk, first,
              chunk_rows - first < Engine::kGroupRows ? chunk_rows - first : Engine::kGroupRows, group);
    if (group.key_count > 0) {
      Engine::Scores(space.queries + Engine::QueryPlace(d, first, 0), group.rows, d, keys.keys, group.tiles(),
                     space.scores);
      scaled ? Softmax<Engine, true>(space.scores, keys, group, space.probabilities)
             : Softmax<Engine, false>(space.scores, keys, group, space.probabilities);
      Engine::Weigh(space.probabilities, group.rows, d, keys.values, group.key_count, space.split_out);
    }
    take(group);
  }
}

// Factors of a fold step for 16 rows; maxima and sums become those after it.
SKEIN_V16_INLINE void FoldFactors(const float* split_maxima, const float* split_sums, float* maxima, float* sums,
                                  float* keep, float* take) {
  const V16 now = Load(maxima), split = Load(split_maxima);
  const V16 higher = Max(split, now);
  const V16 k = Exp2OfNegative<true>(Sub(now, higher)), t = Exp2OfNegative<true>(Sub(split, higher));
  Store(sums, Fma(Load(split_sums), t, Mul(Load(sums), k)));
  Store(maxima, higher);
  Store(keep, k);
  Store(take, t);
}

// Folds a group's split_out into the running sums of its rows.
template <typename Engine>
SKEIN_V16_INLINE void FoldGroup(const Group& group, int split, int d, const Workspace<Engine>& space) {
  alignas(64) float keep[kMostGroupRows], take[kMostGroupRows];
  for (int i = 0; i < group.rows; i += 16) {
    FoldFactors(group.maxima + i, group.sums + i, space.maxima + group.first + i, space.sums + group.first + i,
                keep + i, take + i);
  }
  for (int i = 0; i < group.rows; ++i) {
    if (group.visible[i] == 0) continue;
    const V16 k = Set(keep[i]), t = Set(take[i]);
    float* running = space.out + (group.first + i) * d;
    const float* added = space.split_out + i * d;
    for (int dim = 0; dim < d; dim += 16) {
      const V16 old = split == 0 ? Zero() : Mul(Load(running + dim), k);
      Store(running + dim, Fma(Load(added + dim), t, old));
    }
  }
}

template <typename Engine>
void PackQueries(const AttentionBlock& block, int first_row, int rows, const Workspace<Engine>& space) {
  const int head_dim = block.layout.head_dim, d = block.layout.padded_head_dim();
  const V16 scale = Set(block.scale * math::kLog2E);  // so that probabilities are powers of two
  int token = first_row / block.group, head = first_row % block.group;
  for (int row = 0; row < rows; ++row) {
    const float* query = block.queries + token * block.query_stride + head * head_dim;
    for (int dim = 0; dim < d; dim += 16) {
      Engine::StoreElements(space.queries + Engine::QueryPlace(d, row, dim),
                            Mul(LoadDims(query, dim, head_dim), scale));
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
      SplitKeys keys = {};
      FindKeys<Engine>(block, split, left < kSplitKeys ? left : kSplitKeys, IsFew<Engine>(chunk_rows), space, keys);
      MultiplyGroups<Engine>(block, space, keys, split, chunk, chunk_rows, [&](const Group& group) {
        if (group.key_count > 0) FoldGroup<Engine>(group, split, d, space);
      });
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
      SplitKeys keys = {};
      if (left > 0)
        FindKeys<Engine>(block, split, left < kSplitKeys ? left : kSplitKeys, IsFew<Engine>(chunk_rows), space, keys);
      MultiplyGroups<Engine>(block, space, keys, split, chunk, chunk_rows, [&](const Group& group) {
        for (int i = 0; i < group.rows; ++i) {
          const auto row = static_cast<std::ptrdiff_t>(split - begin) * all_rows + chunk + group.first + i;
          float* partial = partials + row * (2 + head_dim);
          const bool any = group.visible[i] > 0;
          partial[0] = any ? group.maxima[i] : -__builtin_huge_valf();
          partial[1] = any ? group.sums[i] : 0.0f;
          for (int dim = 0; dim < head_dim; ++dim) partial[2 + dim] = any ? space.split_out[i * d + dim] : 0.0f;
        }
      });
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
          .preferred_rows = kChunkRows};
}

}  // namespace
}  // namespace skein::kernels
