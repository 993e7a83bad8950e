// SPDX-License-Identifier: Apache-2.0
//
// The wire and its sum as plain loops: what they mean, bit for bit. Slow and obvious; never optimised.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "comm/wire/wire_paths.h"
#include "kernels/simd/scalar_math.h"

namespace skein::comm {
namespace {

using kernels::math::kSmallestMagnitude;
using kernels::math::ScalarBf16;
using kernels::math::ScalarFromBf16;

struct Unit {
  float value[kUnitColumns];
};

// Byte of column i of a unit in bf16.
int Bf16At(int i) { return i / 32 * 64 + i % 16 * 4 + i % 32 / 16 * 2; }

void EncodeUnit(WireType type, const float* x, int n, std::byte* out) {
  if (type == WireType::kFp32) {
    std::memcpy(out, x, static_cast<std::size_t>(n) * 4);
    return;
  }
  if (type == WireType::kBf16) {
    std::memset(out, 0, static_cast<std::size_t>((n + 31) / 32 * 64));
    for (int i = 0; i < n; ++i) {
      const std::uint16_t bits = ScalarBf16(x[i]);
      std::memcpy(out + Bf16At(i), &bits, 2);
    }
    return;
  }
  float largest = 0.0f;
  bool finite = true;
  for (int i = 0; i < n; ++i) {
    finite = finite && std::isfinite(x[i]);
    largest = std::fabs(x[i]) > largest ? std::fabs(x[i]) : largest;
  }
  const bool zero = !finite || largest < kSmallestMagnitude;
  const float scale = !finite ? std::numeric_limits<float>::quiet_NaN() : zero ? 0.0f : largest / 127.0f;
  const float inverse = zero ? 0.0f : 127.0f / largest;
  std::memcpy(out, &scale, 4);
  for (int i = 0; i < n; ++i) {
    out[4 + i] = static_cast<std::byte>(static_cast<std::int8_t>(finite ? std::nearbyint(x[i] * inverse) : 0.0f));
  }
}

Unit DecodeUnit(WireType type, const std::byte* in, int n) {
  Unit unit = {};
  float scale = 0.0f;
  if (type == WireType::kInt8) std::memcpy(&scale, in, 4);
  for (int i = 0; i < n; ++i) {
    switch (type) {
      case WireType::kFp32:
        std::memcpy(&unit.value[i], in + 4 * i, 4);
        break;
      case WireType::kBf16: {
        std::uint16_t bits = 0;
        std::memcpy(&bits, in + Bf16At(i), 2);
        unit.value[i] = ScalarFromBf16(bits);
        break;
      }
      case WireType::kInt8:
        unit.value[i] = static_cast<float>(static_cast<std::int8_t>(in[4 + i])) * scale;
        break;
    }
  }
  return unit;
}

Unit Rounded(WireType type, const Unit& unit, int n) {
  std::byte bytes[kUnitColumns * 4];
  EncodeUnit(type, unit.value, n, bytes);
  return DecodeUnit(type, bytes, n);
}

// `offset` is where the unit lies in a contribution of each type.
Unit SumUnit(const Sources& sources, WireTypes types, std::size_t inner_offset, std::size_t outer_offset, int n) {
  Unit sums[kHostsMax];
  for (int host = 0; host < sources.hosts; ++host) {
    const int begin = sources.host_begin[host], end = sources.host_begin[host + 1];
    if (sources.hosts > 1 && end - begin == 1) {
      sums[host] = DecodeUnit(types.outer, sources.contributions[begin] + outer_offset, n);
      continue;
    }
    sums[host] = DecodeUnit(types.inner, sources.contributions[begin] + inner_offset, n);
    for (int source = begin + 1; source < end; ++source) {
      const Unit next = DecodeUnit(types.inner, sources.contributions[source] + inner_offset, n);
      for (int i = 0; i < n; ++i) sums[host].value[i] = sums[host].value[i] + next.value[i];
    }
    if (sources.hosts > 1) sums[host] = Rounded(types.outer, sums[host], n);
  }
  for (int distance = 1; distance < sources.hosts; distance *= 2) {
    for (int host = 0; host + distance < sources.hosts; host += 2 * distance) {
      for (int i = 0; i < n; ++i) sums[host].value[i] = sums[host].value[i] + sums[host + distance].value[i];
    }
  }
  return sums[0];
}

template <typename Take>
void ForEachUnit(int n, Take take) {
  for (int column = 0; column < n; column += kUnitColumns) take(column, std::min(kUnitColumns, n - column));
}

std::size_t OffsetOf(WireType type, int column) { return WireLayout{type, 1 << 30}.Offset(column / kUnitColumns); }

void Put(const Unit& unit, int n, bool add, float* out) {
  for (int i = 0; i < n; ++i) out[i] = add ? out[i] + unit.value[i] : unit.value[i];
}

void Encode(WireType type, const float* x, int n, std::byte* out) {
  ForEachUnit(n, [&](int column, int count) { EncodeUnit(type, x + column, count, out + OffsetOf(type, column)); });
}

void Decode(WireType type, const std::byte* in, int n, bool add, float* out) {
  ForEachUnit(n, [&](int column, int count) {
    Put(DecodeUnit(type, in + OffsetOf(type, column), count), count, add, out + column);
  });
}

void Sum(const Sources& sources, WireTypes types, int n, float* out) {
  ForEachUnit(n, [&](int column, int count) {
    const Unit sum = SumUnit(sources, types, OffsetOf(types.inner, column), OffsetOf(types.outer, column), count);
    Put(sum, count, /*add=*/false, out + column);
  });
}

void Combine(const Sources& sources, WireTypes types, int n, bool add, float* out) {
  const WireType result = sources.hosts > 1 ? types.outer : types.inner;
  ForEachUnit(n, [&](int column, int count) {
    const Unit sum = SumUnit(sources, types, OffsetOf(types.inner, column), OffsetOf(types.outer, column), count);
    Put(Rounded(result, sum, count), count, add, out + column);
  });
}

constexpr WireKernels kWireKernels = {.encode = Encode, .decode = Decode, .sum = Sum, .combine = Combine};

}  // namespace

const WireKernels& WireRef() { return kWireKernels; }

}  // namespace skein::comm
