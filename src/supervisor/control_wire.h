// SPDX-License-Identifier: Apache-2.0
//
// What the supervisor and a rank say to each other besides requests and tokens, in frames of base/wire.h on a stream socket of its
// own for each rank, so that a beat never waits behind an answer. Decoding trusts nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "engine/rank_load.h"
#include "supervisor/rank_setup.h"

namespace skein::supervisor {

// A rank that inherited no socket introduces itself on each of those it opens.
struct HelloMessage {
  enum class Purpose : std::uint8_t { kControl, kEngine, kModel };
  std::string secret = {};
  std::string build = {};
  std::int32_t rank = 0;
  Purpose purpose = Purpose::kControl;
  friend bool operator==(const HelloMessage&, const HelloMessage&) = default;
};
// Either way: I am alive. From a rank with what it has done.
struct BeatMessage {
  engine::RankLoad load = {};
};
// To a rank: end in order.
struct StopMessage {};
struct ProgressMessage {
  std::uint64_t done = 0, total = 0;
};
// From a rank: loaded. Only the first one's facts say something.
struct ReadyMessage {
  RankFacts facts = {};
};
// From a rank: it will not go on.
struct FailedMessage {
  std::uint8_t code = 0;
  std::string message = {}, field = {};
};

// The order is the wire form.
using ControlMessage = std::variant<HelloMessage, RankSetup, BeatMessage, StopMessage, ProgressMessage, ReadyMessage, FailedMessage>;

inline constexpr std::uint32_t kControlMagic = 0x55534B53;  // "SKSU"
inline constexpr std::uint16_t kControlVersion = 3;
// Of any control message.
inline constexpr std::size_t kControlBytesMax = 1u << 20;
// Of a hello: more is not taken from whoever has not said who it is.
inline constexpr std::size_t kHelloBytesMax = 1024;

std::vector<std::byte> EncodeControl(const ControlMessage& message);
Result<ControlMessage> DecodeControl(std::span<const std::byte> bytes);

FailedMessage FailedOf(const Status& status);
// Never ok, whatever the message says.
Status StatusOf(const FailedMessage& message);

}  // namespace skein::supervisor
