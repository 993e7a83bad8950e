// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/reduction.h"

#include <algorithm>
#include <cstring>

namespace skein::comm {

Reducing::Reducing(Transport& members, const HostMap& host_map, const WireKernels& wire_kernels, WireTypes wire_types,
                   Memory& own, const Reduction& what)
    : transport(members), hosts(host_map), kernels(wire_kernels), types(wire_types), memory(own), r(what),
      self(members.self()), size(members.size()) {
  x_stride_ = r.x_stride == 0 ? r.columns : r.x_stride;
  out_stride_ = r.out_stride == 0 ? r.columns : r.out_stride;
  units_per_row_ = (r.columns + kUnitColumns - 1) / kUnitColumns;
  one_row_ = x_stride_ == r.columns && out_stride_ == r.columns && r.columns % kUnitColumns == 0;
  const std::size_t unit_bytes = std::max(WireLayout{types.inner, r.columns}.UnitBytes(),
                                          hosts.hosts() > 1 ? WireLayout{types.outer, r.columns}.UnitBytes() : 0);
  units_per_chunk_ = static_cast<std::int64_t>(members.slot_bytes() / unit_bytes);
}

template <typename Take>
void Reducing::ForEachPiece(Units units, Take take) const {
  std::int64_t unit = units.begin;
  while (unit < units.end) {
    const int row = static_cast<int>(unit / units_per_row_);
    const int column = static_cast<int>(unit % units_per_row_) * kUnitColumns;
    if (one_row_) {
      take(unit, row, column, static_cast<int>(units.end - unit) * kUnitColumns);
      return;
    }
    const std::int64_t end = std::min(units.end, static_cast<std::int64_t>(row + 1) * units_per_row_);
    take(unit, row, column, std::min(r.columns - column, static_cast<int>(end - unit) * kUnitColumns));
    unit = end;
  }
}

void Reducing::EncodeInput(WireType type, Units units, std::byte* out) const {
  const WireLayout layout{type, r.columns};
  const std::size_t begin = layout.Offset(units.begin);
  ForEachPiece(units, [&](std::int64_t unit, int row, int column, int n) {
    kernels.encode(type, Input(row, column), n, out + (layout.Offset(unit) - begin));
  });
}

void Reducing::TakeResult(WireType type, Units units, const std::byte* in) const {
  const WireLayout layout{type, r.columns};
  const std::size_t begin = layout.Offset(units.begin);
  ForEachPiece(units, [&](std::int64_t unit, int row, int column, int n) {
    kernels.decode(type, in + (layout.Offset(unit) - begin), n, r.add, Output(row, column));
  });
}

void Reducing::PointPieces(Units units, std::int64_t unit, int host_begin, int host_end) {
  const WireLayout inner{types.inner, r.columns}, outer{types.outer, r.columns};
  const std::size_t inner_offset = inner.Offset(unit) - inner.Offset(units.begin);
  const std::size_t outer_offset = outer.Offset(unit) - outer.Offset(units.begin);
  for (int host = host_begin; host < host_end; ++host) {
    const bool alone = hosts.hosts() > 1 && hosts.SizeOf(host) == 1;
    for (int i = hosts.begin[static_cast<std::size_t>(host)]; i < hosts.begin[static_cast<std::size_t>(host) + 1]; ++i) {
      memory.pieces[static_cast<std::size_t>(i)] =
          memory.contributions[static_cast<std::size_t>(i)] + (alone ? outer_offset : inner_offset);
    }
  }
}

void Reducing::CombineIntoOutput(Units units) {
  ForEachPiece(units, [&](std::int64_t unit, int row, int column, int n) {
    const std::byte* const* contributions = memory.contributions.data();
    if (unit != units.begin) {
      PointPieces(units, unit, 0, hosts.hosts());
      contributions = memory.pieces.data();
    }
    kernels.combine({contributions, hosts.begin.data(), hosts.hosts()}, types, n, r.add, Output(row, column));
  });
}

void Reducing::CombineIntoBytes(Units units, std::byte* out) {
  const WireLayout layout{ResultType(), r.columns};
  ForEachPiece(units, [&](std::int64_t unit, int, int, int n) {
    PointPieces(units, unit, 0, hosts.hosts());
    kernels.sum({memory.pieces.data(), hosts.begin.data(), hosts.hosts()}, types, n, memory.sums.data());
    kernels.encode(layout.type, memory.sums.data(), n, out + (layout.Offset(unit) - layout.Offset(units.begin)));
  });
}

void Reducing::SumHostIntoBytes(int host, Units units, std::byte* out) {
  const int ranks = hosts.SizeOf(host);
  const int begin[2] = {0, ranks};
  const WireLayout layout{ResultType(), r.columns};
  ForEachPiece(units, [&](std::int64_t unit, int, int, int n) {
    PointPieces(units, unit, host, host + 1);
    const std::byte* const* first = memory.pieces.data() + hosts.begin[static_cast<std::size_t>(host)];
    kernels.sum({first, begin, 1}, types, n, memory.sums.data());
    kernels.encode(layout.type, memory.sums.data(), n, out + (layout.Offset(unit) - layout.Offset(units.begin)));
  });
}

void Reducing::CombineHostsIntoBytes(Units units, std::byte* out) {
  const WireLayout layout{types.outer, r.columns};
  ForEachPiece(units, [&](std::int64_t unit, int, int, int n) {
    const std::size_t offset = layout.Offset(unit) - layout.Offset(units.begin);
    for (int host = 0; host < hosts.hosts(); ++host) {
      memory.pieces[static_cast<std::size_t>(host)] = memory.contributions[static_cast<std::size_t>(host)] + offset;
    }
    kernels.sum({memory.pieces.data(), memory.host_begin.data(), hosts.hosts()}, types, n, memory.sums.data());
    kernels.encode(layout.type, memory.sums.data(), n, out + offset);
  });
}

void Reducing::CopyInputToSums(Units chunk) {
  ForEachPiece(chunk, [&](std::int64_t unit, int row, int column, int n) {
    std::memcpy(memory.sums.data() + (unit - chunk.begin) * kUnitColumns, Input(row, column), static_cast<std::size_t>(n) * sizeof(float));
  });
}

void Reducing::EncodeSums(WireType type, Units chunk, Units units, std::byte* out) const {
  const WireLayout layout{type, r.columns};
  ForEachPiece(units, [&](std::int64_t unit, int, int, int n) {
    kernels.encode(type, memory.sums.data() + (unit - chunk.begin) * kUnitColumns, n,
                   out + (layout.Offset(unit) - layout.Offset(units.begin)));
  });
}

void Reducing::AddToSums(WireType type, Units chunk, Units units, const std::byte* in) {
  const WireLayout layout{type, r.columns};
  ForEachPiece(units, [&](std::int64_t unit, int, int, int n) {
    kernels.decode(type, in + (layout.Offset(unit) - layout.Offset(units.begin)), n, /*add=*/true,
                   memory.sums.data() + (unit - chunk.begin) * kUnitColumns);
  });
}

void Reducing::ChunkDone(Units chunk) {
  const int rows = static_cast<int>(chunk.end / units_per_row_);
  if (r.done.take != nullptr && rows > rows_done_) r.done.take(r.done.context, rows_done_, rows);
  rows_done_ = rows;
}

}  // namespace skein::comm
