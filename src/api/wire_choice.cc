// SPDX-License-Identifier: Apache-2.0
#include "api/wire_choice.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace skein::api {
namespace {

using Clock = std::chrono::steady_clock;

// 16 KiB to open the window, then what a network of 100 Mbit/s takes a sixth of a second for. The best of a few: others may be using it.
constexpr std::size_t kWarmBytes = 16 << 10, kProbeBytes = 2 << 20;
constexpr int kProbes = 3;
constexpr double kEnoughSeconds = 0.1;  // one measurement that takes so long is enough
// At 1 Gbit/s bf16 halves what sums cost and rounds little; a network that is well below is worth the coarser rounding of int8.
constexpr double kSlowBitsPerSecond = 0.5e9;

// One message there and a byte back. Both sides go on alike.
Result<double> SecondsFor(comm::Communicator& everyone, int other, bool sends, std::span<std::byte> bytes) {
  std::byte answer{};
  const std::span<std::byte> back(&answer, 1);
  const auto begin = Clock::now();
  if (sends) {
    SKEIN_RETURN_IF_ERROR(everyone.Send(other, bytes));
    SKEIN_RETURN_IF_ERROR(everyone.Receive(other, back));
  } else {
    SKEIN_RETURN_IF_ERROR(everyone.Receive(other, bytes));
    SKEIN_RETURN_IF_ERROR(everyone.Send(other, back));
  }
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Between the first members of two hosts; the sender's number counts.
Result<double> MeasureBits(comm::Communicator& everyone, int other, bool sends) {
  std::vector<std::byte> bytes(kProbeBytes);
  SKEIN_RETURN_IF_ERROR(SecondsFor(everyone, other, sends, std::span(bytes).first(kWarmBytes)).status());
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kProbes; ++i) {
    SKEIN_ASSIGN_OR_RETURN(const double seconds, SecondsFor(everyone, other, sends, bytes));
    best = std::min(best, seconds);
    // The sender says whether there is another one.
    std::byte more{static_cast<unsigned char>(seconds < kEnoughSeconds && i + 1 < kProbes)};
    SKEIN_RETURN_IF_ERROR(sends ? everyone.Send(other, {&more, 1}) : everyone.Receive(other, {&more, 1}));
    if (more == std::byte{0}) break;
  }
  return 8.0 * static_cast<double>(kProbeBytes) / best;
}

}  // namespace

comm::WireType OuterWireFor(double bits_per_second) {
  return bits_per_second < kSlowBitsPerSecond ? comm::WireType::kInt8 : comm::WireType::kBf16;
}

Result<comm::WireTypes> ChooseWire(comm::Communicator& everyone) {
  comm::WireTypes types;
  const comm::HostMap& hosts = everyone.group().hosts;
  if (hosts.hosts() < 2) return types;
  const int from = hosts.MembersOf(0).front(), to = hosts.MembersOf(1).front(), self = everyone.self();
  double bits = 0;
  if (self == from || self == to) {
    SKEIN_ASSIGN_OR_RETURN(bits, MeasureBits(everyone, self == from ? to : from, self == from));
  }
  auto type = static_cast<std::uint8_t>(OuterWireFor(bits));
  SKEIN_RETURN_IF_ERROR(everyone.Broadcast(from, std::as_writable_bytes(std::span(&type, 1))));
  types.outer = type == static_cast<std::uint8_t>(comm::WireType::kInt8) ? comm::WireType::kInt8 : comm::WireType::kBf16;
  return types;
}

}  // namespace skein::api
