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
  }
  if constexpr (type == WireType::kBf16) {
    auto* words = reinterpret_cast<float*>(out);
    Store(words, PairsOfBf16(unit.v[0], unit.v[1]));
    Store(words + 16, PairsOfBf16(unit.v[2], unit.v[3]));
  }
  if constexpr (type == WireType::kFp32) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) Store(reinterpret_cast<float*>(out) + 16 * i, unit.v[i]);
  }
}

// The unit at `in`; what lies beyond its columns is whatever lies there.
template <WireType type>
SKEIN_WIRE_INLINE Unit GetUnit(const std::byte* in) {
  Unit unit;
  const auto* words = reinterpret_cast<const float*>(in);
  if constexpr (type == WireType::kInt8) {
    float scale = 0.0f;
    std::memcpy(&scale, in, 4);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) unit.v[i] = Mul(FromInt8(reinterpret_cast<const std::int8_t*>(in + 4 + 16 * i)), Set(scale));
  }
  if constexpr (type == WireType::kBf16) {
    unit = {ShiftLeftBits<16>(Load(words)), UpperHalfBits(Load(words)), ShiftLeftBits<16>(Load(words + 16)), UpperHalfBits(Load(words + 16))};
  }
  if constexpr (type == WireType::kFp32) unit = {Load(words), Load(words + 16), Load(words + 32), Load(words + 48)};
  return unit;
}

// Requires: zeros beyond the unit's columns.
template <WireType type>
SKEIN_WIRE_INLINE Unit Rounded(const Unit& unit) {
  Unit rounded;
  if constexpr (type == WireType::kFp32) rounded = unit;
  if constexpr (type == WireType::kBf16) {
    const V16 low = PairsOfBf16(unit.v[0], unit.v[1]), high = PairsOfBf16(unit.v[2], unit.v[3]);
    rounded = {ShiftLeftBits<16>(low), UpperHalfBits(low), ShiftLeftBits<16>(high), UpperHalfBits(high)};
  }
  if constexpr (type == WireType::kInt8) {
    const Int8Scale scale = ScaleOf(unit);
    const V16 inverse = Set(scale.inverse);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      // What is not finite must not reach the multiplication; -0 becomes 0, as among integers.
      const V16 q = scale.inverse == 0.0f ? Zero() : Mul(unit.v[i], inverse);
      rounded.v[i] = Mul(Add(Sub(q, BeyondNearest(q)), Zero()), Set(scale.scale));
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

template <WireType type>
void EncodeAs(const float* x, int n, std::byte* out) {
  for (; n >= kUnitColumns; n -= kUnitColumns, x += kUnitColumns, out += UnitBytes(type)) PutUnit<type>(LoadUnit<true>(x, kUnitColumns), out);
  if (n > 0) PutUnit<type>(LoadUnit<false>(x, n), out);
}

void Encode(WireType type, const float* x, int n, std::byte* out) {
  if (type == WireType::kFp32) {
    std::memcpy(out, x, static_cast<std::size_t>(n) * 4);
    return;
  }
  WithType(type, [&]<WireType kType>() { EncodeAs<kType>(x, n, out); });
}

template <WireType type, bool kAdd>
void DecodeAs(const std::byte* in, int n, float* out) {
  for (; n >= kUnitColumns; n -= kUnitColumns, in += UnitBytes(type), out += kUnitColumns) {
    StoreUnit<true>(out, GetUnit<type>(in), kUnitColumns, kAdd);
  }
  if (n > 0) StoreUnit<false>(out, GetUnit<type>(in), n, kAdd);
}

void Decode(WireType type, const std::byte* in, int n, bool add, float* out) {
  WithType(type, [&]<WireType kType>() { add ? DecodeAs<kType, true>(in, n, out) : DecodeAs<kType, false>(in, n, out); });
}

// Contributions [begin, end) added in order, `offset` bytes in.
template <WireType type, bool kWhole>
SKEIN_WIRE_INLINE Unit SumOf(const std::byte* const* contributions, int begin, int end, std::size_t offset, int count) {
  Unit sum = GetUnit<type>(contributions[begin] + offset);
  for (int source = begin + 1; source < end; ++source) AddUnit(sum, GetUnit<type>(contributions[source] + offset));
  return KeepColumns<kWhole>(sum, count);
}

// How a sum ends.
template <bool kRounds, bool kAdds>
struct Ending {
  static constexpr bool kRound = kRounds, kAdd = kAdds;
};

template <WireType type, typename End, bool kWhole>
SKEIN_WIRE_INLINE void Finish(Unit sum, int count, float* out) {
  if constexpr (End::kRound) sum = Rounded<type>(sum);
  StoreUnit<kWhole>(out, sum, count, End::kAdd);
}

// kSources: their number, known to be so when it is not 0.
template <WireType type, typename End, int kSources>
void SumOneHost(const std::byte* const* contributions, int sources, int n, float* out) {
  if constexpr (kSources != 0) sources = kSources;
  std::size_t offset = 0;
  for (; n >= kUnitColumns; n -= kUnitColumns, offset += UnitBytes(type), out += kUnitColumns) {
    Finish<type, End, true>(SumOf<type, true>(contributions, 0, sources, offset, kUnitColumns), kUnitColumns, out);
  }
  if (n > 0) Finish<type, End, false>(SumOf<type, false>(contributions, 0, sources, offset, n), n, out);
}

template <WireType inner, WireType outer, bool kWhole>
SKEIN_WIRE_INLINE Unit SumOverHosts(const Sources& sources, std::size_t unit, int count) {
  Unit sums[kHostsMax];
  for (int host = 0; host < sources.hosts; ++host) {
    const int begin = sources.host_begin[host], end = sources.host_begin[host + 1];
    sums[host] = end - begin == 1
                     ? SumOf<outer, kWhole>(sources.contributions, begin, end, unit * UnitBytes(outer), count)
                     : Rounded<outer>(SumOf<inner, kWhole>(sources.contributions, begin, end, unit * UnitBytes(inner), count));
  }
  for (int distance = 1; distance < sources.hosts; distance *= 2) {
    for (int host = 0; host + distance < sources.hosts; host += 2 * distance) AddUnit(sums[host], sums[host + distance]);
  }
  return sums[0];
}

template <WireType inner, WireType outer, typename End>
void SumManyHosts(const Sources& sources, int n, float* out) {
  std::size_t unit = 0;
  for (; n >= kUnitColumns; n -= kUnitColumns, ++unit, out += kUnitColumns) {
    Finish<outer, End, true>(SumOverHosts<inner, outer, true>(sources, unit, kUnitColumns), kUnitColumns, out);
  }
  if (n > 0) Finish<outer, End, false>(SumOverHosts<inner, outer, false>(sources, unit, n), n, out);
}

template <typename End>
void SumAll(const Sources& sources, WireTypes types, int n, float* out) {
  WithType(types.inner, [&]<WireType kInner>() {
    if (sources.hosts > 1) {
      WithType(types.outer, [&]<WireType kOuter>() { SumManyHosts<kInner, kOuter, End>(sources, n, out); });
    } else if (sources.host_begin[1] == 2) {
      SumOneHost<kInner, End, 2>(sources.contributions, 2, n, out);
    } else {
      SumOneHost<kInner, End, 0>(sources.contributions, sources.host_begin[1], n, out);
    }
  });
}

void Sum(const Sources& sources, WireTypes types, int n, float* out) { SumAll<Ending<false, false>>(sources, types, n, out); }

void Combine(const Sources& sources, WireTypes types, int n, bool add, float* out) {
  add ? SumAll<Ending<true, true>>(sources, types, n, out) : SumAll<Ending<true, false>>(sources, types, n, out);
}

constexpr WireKernels kWireKernels = {.encode = Encode, .decode = Decode, .sum = Sum, .combine = Combine};

}  // namespace
}  // namespace skein::comm
