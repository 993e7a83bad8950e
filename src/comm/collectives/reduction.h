// SPDX-License-Identifier: Apache-2.0
//
// What an all-reduce works on, and what its algorithms share: units, chunks, encoding and summing of row pieces. An algorithm is a plain
// function from a Reduction to a Status; all_reduce.h has the table.
//
// A message is rows of units of 64 columns (wire/wire.h), counted over all rows. It is worked through in *chunks* that fit a slot; a
// *share* is a run of whole units of a chunk.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "comm/mesh.h"
#include "comm/transport.h"
#include "comm/wire/wire.h"

namespace skein::comm {

// Told when results of rows [begin, end) stand in `out` and are still in cache: where the norm of the next layer is computed.
struct RowsDone {
  void (*take)(void* context, int begin, int end) = nullptr;
  void* context = nullptr;
};

struct Reduction {
  const float* x = nullptr;  // [rows, columns]: this member's contribution
  float* out = nullptr;      // [rows, columns]: receives the sum; may be x unless `add`
  int rows = 0;
  int columns = 0;
  std::ptrdiff_t x_stride = 0;    // floats from row to row; 0: columns
  std::ptrdiff_t out_stride = 0;
  bool add = false;  // adds the sum to what stands in `out`: the residual
  RowsDone done = {};
};

struct Units {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
  // Share i of n even ones.
  Units Share(int i, int n) const { return {begin + count() * i / n, begin + count() * (i + 1) / n}; }
};

// One all-reduce under way: lives for one call, its memory is the communicator's.
class Reducing {
 public:
  struct Memory {
    std::vector<const std::byte*> contributions, pieces;  // [members]
    std::vector<int> host_begin;                          // [hosts + 1]: one contribution per host
    std::vector<float> sums;                              // [units of a chunk × 64]
    std::vector<std::byte> encoded;                       // [slot + slack]
  };

  Reducing(Transport& members, const HostMap& host_map, const WireKernels& wire_kernels, WireTypes wire_types, Memory& own,
           const Reduction& what);

  Transport& transport;
  const HostMap& hosts;
  const WireKernels& kernels;
  WireTypes types;
  Memory& memory;
  const Reduction& r;
  const int self;
  const int size;

  // The type in which a member's contribution travels, and the result.
  WireType ContributionType(int member) const {
    return hosts.hosts() > 1 && hosts.SizeOf(hosts.HostOf(member)) == 1 ? types.outer : types.inner;
  }
  WireType ResultType() const { return hosts.hosts() > 1 ? types.outer : types.inner; }
  std::size_t Bytes(WireType type, Units units) const {
    const WireLayout layout{type, r.columns};
    return layout.Offset(units.end) - layout.Offset(units.begin);
  }

  Units All() const { return {0, static_cast<std::int64_t>(r.rows) * units_per_row_}; }
  // The chunk that begins at `begin`.
  Units ChunkAt(std::int64_t begin) const { return {begin, std::min(begin + units_per_chunk_, All().end)}; }

  // This member's contribution to `units`, encoded.
  void EncodeInput(WireType type, Units units, std::byte* out) const;
  // An encoded result, into `out`.
  void TakeResult(WireType type, Units units, const std::byte* in) const;
  // memory.contributions, one per member in the host map's order and each beginning at `units`, combined into `out`.
  void CombineIntoOutput(Units units);
  // The same, encoded as a result instead.
  void CombineIntoBytes(Units units, std::byte* out);
  // Contributions of `host` alone, summed and encoded for the other hosts.
  void SumHostIntoBytes(int host, Units units, std::byte* out);
  // memory.contributions[h] is host h's sum: combined and encoded as a result.
  void CombineHostsIntoBytes(Units units, std::byte* out);

  // For the algorithms that pass partial sums on: memory.sums holds a chunk, 64 floats a unit, `chunk` being its first.
  void CopyInputToSums(Units chunk);
  void EncodeSums(WireType type, Units chunk, Units units, std::byte* out) const;
  void AddToSums(WireType type, Units chunk, Units units, const std::byte* in);

  // Tells r.done about rows that end in `chunk`.
  void ChunkDone(Units chunk);

 private:
  // Calls take(unit, row, column, n) for the pieces of rows in `units`: n columns of one row (or of several where rows are contiguous).
  template <typename Take>
  void ForEachPiece(Units units, Take take) const;
  const float* Input(int row, int column) const { return r.x + row * x_stride_ + column; }
  float* Output(int row, int column) const { return r.out + row * out_stride_ + column; }
  // Points memory.pieces at `unit` of each contribution of hosts [host_begin, host_end).
  void PointPieces(Units units, std::int64_t unit, int host_begin, int host_end);

  std::ptrdiff_t x_stride_, out_stride_;
  int units_per_row_;
  bool one_row_;  // rows follow each other without gaps, and each ends with a whole unit
  std::int64_t units_per_chunk_;
  int rows_done_ = 0;
};

}  // namespace skein::comm
