// SPDX-License-Identifier: Apache-2.0
//
// Field lists of the messages; the kind of a frame is the message's place in the variant, counted from 1. A change of
// any list, here or in scheduler/step_fields.h, raises the version.
#include "engine/engine_wire.h"

#include <utility>

#include "base/wire.h"
#include "scheduler/step_fields.h"

namespace skein::engine {

using wire::Same;

template <class Wire, Same<RequestSpec> T>
void Fields(Wire& wire, T& value) {
  wire(value.request, value.epoch, value.tokens, value.prompt_tokens, value.max_tokens, value.min_tokens, value.choice,
       value.sampling, value.stop_tokens, value.ignore_stop_tokens, value.top_logprobs, value.logprobs);
  wire.Enum(value.prompt_output, PromptOutput::kPooled);
  wire(value.priority, value.deadline_ns, value.tenant, value.cache_salt);
}

template <class Wire, Same<CancelMessage> T>
void Fields(Wire& wire, T& value) {
  wire(value.request);
}

template <class Wire, Same<CreditMessage> T>
void Fields(Wire& wire, T& value) {
  wire(value.request, value.epoch, value.events);
}

template <class Wire, Same<StatsMessage> T>
void Fields(Wire& /*wire*/, T& /*value*/) {}

template <class Wire, Same<EngineStats> T>
void Fields(Wire& wire, T& value) {
  wire(value.steps, value.step_ns, value.communication_ns, value.prompt_tokens, value.generated_tokens, value.preemptions, value.refusals,
       value.running, value.waiting, value.paused, value.blocks_total, value.blocks_held, value.blocks_cached, value.block_tokens, value.places_unused,
       value.prefix_queries, value.prefix_hits, value.restarts, value.replays);
  for (auto& count : value.step_tokens) wire(count);
}

template <class Wire, Same<PromptEvent> T>
void Fields(Wire& wire, T& value) {
  wire(value.request, value.epoch, value.first_position, value.scores, value.logits, value.hidden);
}

template <class Wire, Same<TokenEvent> T>
void Fields(Wire& wire, T& value) {
  wire(value.request, value.epoch, value.index, value.token, value.steps_ns, value.communication_ns);
}

template <class Wire, Same<FinishedEvent> T>
void Fields(Wire& wire, T& value) {
  wire(value.request, value.epoch);
  wire.Enum(value.reason, FinishReason::kError);
  wire(value.error, value.refused, value.prompt_tokens, value.cached_tokens, value.generated_tokens, value.queued_ns,
       value.first_token_ns, value.total_ns);
}

namespace {

constexpr std::uint32_t kEventWindow = 64;
// Of requests whose single events may have megabytes: enough that the next one is computed while one travels.
constexpr std::uint32_t kLargeEventWindow = 2;
constexpr std::int32_t kSmallTop = 64;

constexpr wire::FrameKind KindOf(std::size_t index) {
  return {kEngineMagic, kEngineVersion, static_cast<std::uint16_t>(index + 1)};
}

// Decodes as the message whose place is `index`, looking from `I` on.
template <std::size_t I = 0>
Result<Message> DecodeAs(std::size_t index, std::span<const std::byte> bytes) {
  if constexpr (I == std::variant_size_v<Message>) {
    return InvalidFile("a message of a kind that is not known");
  } else {
    if (index != I) return DecodeAs<I + 1>(index, bytes);
    SKEIN_ASSIGN_OR_RETURN(auto message, (wire::Decode<std::variant_alternative_t<I, Message>>(KindOf(I), bytes)));
    return Message(std::move(message));
  }
}

}  // namespace

std::uint32_t EventWindowOf(const RequestSpec& request) {
  const bool large = request.prompt_output == PromptOutput::kLogits || request.top_logprobs > kSmallTop;
  return large ? kLargeEventWindow : kEventWindow;
}

std::vector<std::byte> EncodeMessage(const Message& message) {
  return std::visit([&](const auto& value) { return wire::Encode(KindOf(message.index()), value); }, message);
}

Result<Message> DecodeMessage(std::span<const std::byte> bytes) {
  SKEIN_ASSIGN_OR_RETURN(const wire::FrameKind kind, wire::PeekFrame(bytes));
  return DecodeAs(std::size_t{kind.kind} - 1, bytes);
}

}  // namespace skein::engine
