// SPDX-License-Identifier: Apache-2.0
//
// The wire form of EngineClient's messages, so that a router in another process can speak it: frames of base/wire.h.
// Decoding what was encoded gives an equal value; anything else gives a Status (kInvalidFile).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "engine/engine_client.h"

namespace skein::engine {

struct CancelMessage {
  RequestId request;
  friend bool operator==(const CancelMessage&, const CancelMessage&) = default;
};
// The far side has room for so many more events of a request. It begins with EventWindowOf.
struct CreditMessage {
  RequestId request = {};
  std::uint32_t epoch = 0;
  std::uint32_t events = 0;
  friend bool operator==(const CreditMessage&, const CreditMessage&) = default;
};
struct StatsMessage {  // asks; EngineStats is the answer
  friend bool operator==(const StatsMessage&, const StatsMessage&) = default;
};

// Everything that goes in either direction. The order is the wire form.
using Message =
    std::variant<RequestSpec, CancelMessage, StatsMessage, EngineStats, PromptEvent, TokenEvent, FinishedEvent, CreditMessage>;

// What every message's frame begins with.
inline constexpr std::uint32_t kEngineMagic = 0x4E454B53;  // "SKEN"
inline constexpr std::uint16_t kEngineVersion = 5;

// Events of a request, besides its last one, that may be under way and not taken by its sink yet.
std::uint32_t EventWindowOf(const RequestSpec& request);

std::vector<std::byte> EncodeMessage(const Message& message);
Result<Message> DecodeMessage(std::span<const std::byte> bytes);

}  // namespace skein::engine
