// SPDX-License-Identifier: Apache-2.0
//
// What fp32 rows look like on the wire, and the one sum over what several ranks sent. A message is rows of `columns`; a row is cut into
// *units* of 64 columns, the last one shorter, and every share of a message is whole units. Bytes of a unit with n columns:
//
//   fp32   n × fp32
//   bf16   blocks of 32 columns, the last one filled up with zeros: 16 words of 32 bits, word j = column j low, column 16 + j high, so that
//          one load and a shift or mask give 16 neighbours. Rounded to nearest even, denormals zero
//   int8   scale fp32 | n × int8: scale = max|x| / 127, q = rint(x · (127 / max|x|)), value q · scale; zeros when max|x| < 2^-100; a
//          unit that holds an infinity or NaN becomes all NaN (scale NaN)
//
// The sum (docs/numerics.md): contributions of one host in order, each host's sum rounded, hosts by the aligned tree, the result rounded.
// `ref` says it in plain loops; the other paths give the same bits. Little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "comm/mesh.h"
#include "kernels/arithmetic.h"

namespace skein::comm {

enum class WireType : std::uint8_t { kFp32, kBf16, kInt8 };
std::string_view NameOf(WireType type);  // "fp32", "bf16", "int8"
std::optional<WireType> WireTypeFromName(std::string_view name);

struct WireTypes {
  WireType inner = WireType::kFp32;  // between ranks of one host
  WireType outer = WireType::kFp32;  // between hosts
  friend bool operator==(const WireTypes&, const WireTypes&) = default;
};

constexpr int kUnitColumns = 64;
// Vector code may read and write up to so many bytes beyond the end of encoded units.
constexpr std::size_t kWireSlack = 256;

// Where units lie in an encoded message of rows of `columns`.
struct WireLayout {
  WireType type = WireType::kFp32;
  int columns = 0;

  int UnitsPerRow() const { return (columns + kUnitColumns - 1) / kUnitColumns; }
  std::size_t UnitBytes() const;  // of a whole unit
  std::size_t RowBytes() const;
  // Byte at which unit `unit` (counted over all rows) begins, as if the message began at byte 0.
  std::size_t Offset(std::int64_t unit) const;
};

// What is summed: pointers to the same columns in each contribution, host by host.
struct Sources {
  const std::byte* const* contributions;
  const int* host_begin;  // [hosts + 1]
  int hosts;              // 1 … kHostsMax
};

struct WireKernels {
  // All take n columns of one row that begin at a unit.
  void (*encode)(WireType type, const float* x, int n, std::byte* out) = nullptr;
  // out[i] = value, or out[i] += value with `add`.
  void (*decode)(WireType type, const std::byte* in, int n, bool add, float* out) = nullptr;
  // The sum, not rounded as a result. A host with one contribution among several hosts sent the outer type.
  void (*sum)(const Sources& sources, WireTypes types, int n, float* out) = nullptr;
  // The sum, rounded as a result: to the outer type when there are several hosts, else the inner. Stored or added.
  void (*combine)(const Sources& sources, WireTypes types, int n, bool add, float* out) = nullptr;
};

const WireKernels& SelectWire(kernels::KernelPath path);

}  // namespace skein::comm
