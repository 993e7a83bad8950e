// SPDX-License-Identifier: Apache-2.0
#include "supervisor/control_wire.h"

#include <utility>

#include "base/wire.h"

namespace skein::supervisor {

using wire::Same;

template <class Wire, Same<HelloMessage> T>
void Fields(Wire& wire, T& value) {
  wire(value.secret, value.build, value.rank);
  wire.Enum(value.purpose, HelloMessage::Purpose::kModel);
}
template <class Wire, Same<BeatMessage> T>
void Fields(Wire& wire, T& value) {
  auto& load = value.load;
  wire(load.steps, load.busy_ns, load.communication_ns, load.waiting_ns, load.bytes_sent, load.memory_bytes, load.recent_share);
}
template <class Wire, Same<StopMessage> T>
void Fields(Wire& /*wire*/, T& /*value*/) {}
template <class Wire, Same<ProgressMessage> T>
void Fields(Wire& wire, T& value) {
  wire(value.done, value.total);
}
template <class Wire, Same<ReadyMessage> T>
void Fields(Wire& wire, T& value) {
  wire(value.facts);
}
template <class Wire, Same<FailedMessage> T>
void Fields(Wire& wire, T& value) {
  wire(value.code, value.message, value.field);
}

namespace {

constexpr wire::FrameKind KindOf(std::size_t index) {
  return {kControlMagic, kControlVersion, static_cast<std::uint16_t>(index + 1)};
}

template <std::size_t I = 0>
Result<ControlMessage> DecodeAs(std::size_t index, std::span<const std::byte> bytes) {
  if constexpr (I == std::variant_size_v<ControlMessage>) {
    return InvalidFile("a control message of a kind that is not known");
  } else {
    if (index != I) return DecodeAs<I + 1>(index, bytes);
    SKEIN_ASSIGN_OR_RETURN(auto message, (wire::Decode<std::variant_alternative_t<I, ControlMessage>>(KindOf(I), bytes)));
    return ControlMessage(std::move(message));
  }
}

}  // namespace

std::vector<std::byte> EncodeControl(const ControlMessage& message) {
  return std::visit([&](const auto& value) { return wire::Encode(KindOf(message.index()), value); }, message);
}

Result<ControlMessage> DecodeControl(std::span<const std::byte> bytes) {
  SKEIN_ASSIGN_OR_RETURN(const wire::FrameKind kind, wire::PeekFrame(bytes));
  return DecodeAs(std::size_t{kind.kind} - 1, bytes);
}

FailedMessage FailedOf(const Status& status) {
  return {static_cast<std::uint8_t>(status.code()), status.message(), status.field()};
}

Status StatusOf(const FailedMessage& message) {
  const bool known = message.code > static_cast<std::uint8_t>(Code::kOk) && message.code <= static_cast<std::uint8_t>(Code::kInternal);
  return Status(known ? static_cast<Code>(message.code) : Code::kInternal, message.message, message.field);
}

}  // namespace skein::supervisor
