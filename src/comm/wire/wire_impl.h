// SPDX-License-Identifier: Apache-2.0
//
// The wire kernels over V16. Included by wire_avx2.cc, wire_avx512.cc and wire_avx512_bf16.cc, which their flags make different;
// everything here has internal linkage. wire_ref.cc says in plain loops what each one means.
//
// A unit is four vectors in registers. Reads and writes of encoded units may go up to kWireSlack beyond their end; fp32 results never do.
#pragma once

#include <cstring>
#include <limits>

#include "comm/wire/wire.h"
#include "kernels/simd/v16.h"

namespace skein::comm {
namespace {

using namespace kernels::simd;  // NOLINT: an implementation shared by three units, included nowhere else

#define SKEIN_WIRE_INLINE [[gnu::always_inline]] inline

struct Unit {
  V16 v[4];
};

constexpr std::size_t UnitBytes(WireType type) {
  return type == WireType::kFp32 ? kUnitColumns * 4 : type == WireType::kBf16 ? kUnitColumns * 2 : kUnitColumns + 4;
}

// Columns of vector i among n of the unit: 0 … 16.
SKEIN_WIRE_INLINE int LanesOf(int i, int n) { return n - 16 * i < 0 ? 0 : n - 16 * i > 16 ? 16 : n - 16 * i; }

// x[n] as a unit, zero beyond; kWhole: n is 64.
template <bool kWhole>
SKEIN_WIRE_INLINE Unit LoadUnit(const float* x, int n) {
  Unit unit;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const int lanes = LanesOf(i, n);
    unit.v[i] = kWhole || lanes == 16 ? Load(x + 16 * i) : lanes > 0 ? LoadPartial(x + 16 * i, lanes) : Zero();
  }
  return unit;
}

template <bool kWhole>
SKEIN_WIRE_INLINE void StoreUnit(float* out, const Unit& unit, int n, bool add) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const int lanes = LanesOf(i, n);
    if (kWhole || lanes == 16) {
      Store(out + 16 * i, add ? Add(Load(out + 16 * i), unit.v[i]) : unit.v[i]);
    } else if (lanes > 0) {
      StorePartial(out + 16 * i, add ? Add(LoadPartial(out + 16 * i, lanes), unit.v[i]) : unit.v[i], lanes);
    }
  }
}

template <bool kWhole>
SKEIN_WIRE_INLINE Unit KeepColumns(Unit unit, int n) {
  if constexpr (!kWhole) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int lanes = LanesOf(i, n);
      if (lanes < 16) unit.v[i] = KeepFirst(unit.v[i], lanes);
    }
  }
  return unit;
}

// What a unit's int8 form is: its scale and what to multiply with.
struct Int8Scale {
  float scale, inverse;
};
// Requires: zeros beyond the unit's columns.
SKEIN_WIRE_INLINE Int8Scale ScaleOf(const Unit& u) {
  const V16 magnitude = Max(Max(Abs(u.v[0]), Abs(u.v[1])), Max(Abs(u.v[2]), Abs(u.v[3])));
  const float largest = ReduceMax(magnitude);
  const unsigned numbers =
      EqualLanes(u.v[0], u.v[0]) & EqualLanes(u.v[1], u.v[1]) & EqualLanes(u.v[2], u.v[2]) & EqualLanes(u.v[3], u.v[3]);
  if (numbers != 0xffffu || !(largest <= std::numeric_limits<float>::max())) {
    return {std::numeric_limits<float>::quiet_NaN(), 0.0f};
  }
  if (largest < kernels::math::kSmallestMagnitude) return {0.0f, 0.0f};
  return {largest / 127.0f, 127.0f / largest};
}

SKEIN_WIRE_INLINE __m128i Int8Of(V16 v, const Int8Scale& scale) {
  // What is not finite must not reach the conversion.
  return scale.inverse == 0.0f ? _mm_setzero_si128() : ToInt8(Mul(v, Set(scale.inverse)));
}

template <WireType type>
SKEIN_WIRE_INLINE void PutUnit(const Unit& unit, std::byte* out) {
  if constexpr (type == WireType::kInt8) {
    const Int8Scale scale = ScaleOf(unit);
    std::memcpy(out, &scale.scale, 4);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 4 + 16 * i), Int8Of(unit.v[i], scale));
  } else {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      if constexpr (type == WireType::kFp32) Store(reinterpret_cast<float*>(out) + 16 * i, unit.v[i]);
      if constexpr (type == WireType::kBf16) StoreBf16(reinterpret_cast<std::uint16_t*>(out) + 16 * i, unit.v[i]);
    }
  }
}

// The unit at `in`; what lies beyond its columns is whatever lies there.
template <WireType type>
SKEIN_WIRE_INLINE Unit GetUnit(const std::byte* in) {
  Unit unit;
  float scale = 0.0f;
  if constexpr (type == WireType::kInt8) std::memcpy(&scale, in, 4);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    if constexpr (type == WireType::kFp32) unit.v[i] = Load(reinterpret_cast<const float*>(in) + 16 * i);
    if constexpr (type == WireType::kBf16) {
      unit.v[i] = FromBf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + 32 * i)));
    }
    if constexpr (type == WireType::kInt8) {
      unit.v[i] = Mul(FromInt8(reinterpret_cast<const std::int8_t*>(in + 4 + 16 * i)), Set(scale));
    }
  }
  return unit;
}

// Requires: zeros beyond the unit's columns.
template <WireType type>
SKEIN_WIRE_INLINE Unit Rounded(const Unit& unit) {
  Unit rounded;
  if constexpr (type == WireType::kFp32) rounded = unit;
  if constexpr (type == WireType::kBf16) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) rounded.v[i] = FromBf16(ToBf16(unit.v[i]));
  }
  if constexpr (type == WireType::kInt8) {
    const Int8Scale scale = ScaleOf(unit);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      alignas(16) std::int8_t q[16];
      _mm_store_si128(reinterpret_cast<__m128i*>(q), Int8Of(unit.v[i], scale));
      rounded.v[i] = Mul(FromInt8(q), Set(scale.scale));
    }
  }
  return rounded;
}

SKEIN_WIRE_INLINE void AddUnit(Unit& sum, const Unit& unit) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) sum.v[i] = Add(sum.v[i], unit.v[i]);
}

// Calls `function` with the type as a constant.
template <typename Function>
SKEIN_WIRE_INLINE void WithType(WireType type, Function function) {
  switch (type) {
    case WireType::kFp32: return function.template operator()<WireType::kFp32>();
    case WireType::kBf16: return function.template operator()<WireType::kBf16>();
    case WireType::kInt8: return function.template operator()<WireType::kInt8>();
  }
}

// Calls take.operator()<kWhole>(unit, column, columns) for the units of n columns.
template <typename Take>
SKEIN_WIRE_INLINE void ForEachUnit(int n, Take take) {
  int unit = 0;
  for (; (unit + 1) * kUnitColumns <= n; ++unit) take.template operator()<true>(unit, unit * kUnitColumns, kUnitColumns);
  const int column = unit * kUnitColumns;
  if (column < n) take.template operator()<false>(unit, column, n - column);
}

void Encode(WireType type, const float* x, int n, std::byte* out) {
  if (type == WireType::kFp32) {
    std::memcpy(out, x, static_cast<std::size_t>(n) * 4);
    return;
  }
  WithType(type, [&]<WireType kType>() {
    ForEachUnit(n, [&]<bool kWhole>(int unit, int column, int count) {
      PutUnit<kType>(LoadUnit<kWhole>(x + column, count), out + static_cast<std::size_t>(unit) * UnitBytes(kType));
    });
  });
}

void Decode(WireType type, const std::byte* in, int n, bool add, float* out) {
  WithType(type, [&]<WireType kType>() {
    ForEachUnit(n, [&]<bool kWhole>(int unit, int column, int count) {
      StoreUnit<kWhole>(out + column, GetUnit<kType>(in + static_cast<std::size_t>(unit) * UnitBytes(kType)), count, add);
    });
  });
}

// Contributions [begin, end) added in order.
template <WireType type, bool kWhole>
SKEIN_WIRE_INLINE Unit SumOf(const std::byte* const* contributions, int begin, int end, int unit, int count) {
  const std::size_t offset = static_cast<std::size_t>(unit) * UnitBytes(type);
  Unit sum = GetUnit<type>(contributions[begin] + offset);
  for (int source = begin + 1; source < end; ++source) AddUnit(sum, GetUnit<type>(contributions[source] + offset));
  return KeepColumns<kWhole>(sum, count);
}

template <WireType inner, WireType outer, bool kWhole>
SKEIN_WIRE_INLINE Unit SumOverHosts(const Sources& sources, int unit, int count) {
  Unit sums[kHostsMax];
  for (int host = 0; host < sources.hosts; ++host) {
    const int begin = sources.host_begin[host], end = sources.host_begin[host + 1];
    sums[host] = end - begin == 1 ? SumOf<outer, kWhole>(sources.contributions, begin, end, unit, count)
                                  : Rounded<outer>(SumOf<inner, kWhole>(sources.contributions, begin, end, unit, count));
  }
  for (int distance = 1; distance < sources.hosts; distance *= 2) {
    for (int host = 0; host + distance < sources.hosts; host += 2 * distance) AddUnit(sums[host], sums[host + distance]);
  }
  return sums[0];
}

template <bool kRound>
SKEIN_WIRE_INLINE void SumAll(const Sources& sources, WireTypes types, int n, bool add, float* out) {
  WithType(types.inner, [&]<WireType kInner>() {
    if (sources.hosts == 1) {
      const int count_of_sources = sources.host_begin[1];
      ForEachUnit(n, [&]<bool kWhole>(int unit, int column, int count) {
        Unit sum = SumOf<kInner, kWhole>(sources.contributions, 0, count_of_sources, unit, count);
        if constexpr (kRound) sum = Rounded<kInner>(sum);
        StoreUnit<kWhole>(out + column, sum, count, add);
      });
      return;
    }
    WithType(types.outer, [&]<WireType kOuter>() {
      ForEachUnit(n, [&]<bool kWhole>(int unit, int column, int count) {
        Unit sum = SumOverHosts<kInner, kOuter, kWhole>(sources, unit, count);
        if constexpr (kRound) sum = Rounded<kOuter>(sum);
        StoreUnit<kWhole>(out + column, sum, count, add);
      });
    });
  });
}

void Sum(const Sources& sources, WireTypes types, int n, float* out) {
  SumAll</*kRound=*/false>(sources, types, n, /*add=*/false, out);
}

void Combine(const Sources& sources, WireTypes types, int n, bool add, float* out) {
  SumAll</*kRound=*/true>(sources, types, n, add, out);
}

constexpr WireKernels kWireKernels = {.encode = Encode, .decode = Decode, .sum = Sum, .combine = Combine};

}  // namespace
}  // namespace skein::comm
