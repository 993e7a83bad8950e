// SPDX-License-Identifier: Apache-2.0
//
// The wire form of EngineClient's messages, so that a router in another process can speak it: frames of base/wire.h.
// Decoding what was encoded gives an equal value; anything else gives a Status (kInvalidFile).
#pragma once

#include <cstddef>
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
struct StatsMessage {  // asks; EngineStats is the answer
  friend bool operator==(const StatsMessage&, const StatsMessage&) = default;
};

// Everything that goes in either direction. The order is the wire form.
using Message =
    std::variant<RequestSpec, CancelMessage, StatsMessage, EngineStats, PromptEvent, TokenEvent, FinishedEvent>;

std::vector<std::byte> EncodeMessage(const Message& message);
Result<Message> DecodeMessage(std::span<const std::byte> bytes);

}  // namespace skein::engine
