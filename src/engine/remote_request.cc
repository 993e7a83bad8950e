// SPDX-License-Identifier: Apache-2.0
#include "engine/remote_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "engine/engine_wire.h"

namespace skein::engine {
namespace {

Status Broken(const RequestSpec& spec, std::string_view what) {
  return InvalidFile(fmt::format("the engine's answer to request {} breaks the rules: {}", spec.request.value, what));
}

}  // namespace

RemoteRequest::RemoteRequest(RequestSpec spec, std::shared_ptr<TokenSink> sink, std::int64_t submitted_ns)
    : spec_(std::move(spec)), own_epoch_(spec_.epoch), sink_(std::move(sink)), submitted_ns_(submitted_ns), window_(EventWindowOf(spec_)) {}

// As scheduler::Scheduler reports it.
std::int32_t RemoteRequest::report_end() const {
  switch (spec_.prompt_output) {
    case PromptOutput::kScores: return spec_.prompt_tokens - 1;
    case PromptOutput::kLogits: return spec_.prompt_tokens;
    case PromptOutput::kPooled:
    case PromptOutput::kNone: break;
  }
  return 0;
}

RequestSpec RemoteRequest::Replay(std::int64_t now_ns) {
  ++spec_.epoch;
  begun_before_ = begun();
  sent_ns_ = now_ns;
  held_.clear();
  taken_ = 0;
  position_ = 0;
  next_index_ = generated();
  RequestSpec replay = spec_;
  // Prompt positions that were all reported need not be computed one by one again.
  if (reported_ >= report_end() && !(spec_.prompt_output == PromptOutput::kPooled && !pooled_)) {
    replay.prompt_output = PromptOutput::kNone;
  }
  return replay;
}

FinishReason RemoteRequest::EndWithout(std::int32_t capacity) const {
  if (!begun()) return FinishReason::kNone;
  const std::int32_t count = generated();
  if (reported_ < report_end()) return FinishReason::kNone;
  if (spec_.max_tokens == 0) return FinishReason::kLength;
  if (first_token_ns_ == 0) return FinishReason::kNone;
  const bool stops = !spec_.ignore_stop_tokens && count > spec_.min_tokens &&
                     std::find(spec_.stop_tokens.begin(), spec_.stop_tokens.end(), spec_.tokens.back()) != spec_.stop_tokens.end();
  if (stops) return FinishReason::kStop;
  const bool full = capacity > 0 && static_cast<std::int64_t>(spec_.tokens.size()) >= capacity;
  return count >= spec_.max_tokens || full ? FinishReason::kLength : FinishReason::kNone;
}

Status RemoteRequest::CheckRoom() const {
  if (holds() && std::holds_alternative<FinishedEvent>(held_.back().event)) return Broken(spec_, "an event after the last one");
  if (held_.size() + taken_ >= window_) return Broken(spec_, "more events than there is room for");
  return OkStatus();
}

Result<bool> RemoteRequest::Take(PromptEvent event, const ExecutorLimits& limits) {
  if (event.epoch != spec_.epoch) return false;
  SKEIN_RETURN_IF_ERROR(CheckRoom());
  if (spec_.prompt_output == PromptOutput::kPooled) {
    if (event.hidden.empty() || pooled_) return Broken(spec_, "not the one vector of its prompt");
    held_.push_back({std::move(event)});
    return true;
  }
  const auto vocabulary = static_cast<std::size_t>(limits.vocabulary);
  const std::size_t count = spec_.prompt_output == PromptOutput::kLogits ? event.logits.size() / vocabulary : event.scores.size();
  const bool whole = spec_.prompt_output != PromptOutput::kLogits || event.logits.size() == count * vocabulary;
  if (!whole || count == 0 || event.first_position != position_ ||
      count > static_cast<std::size_t>(report_end() - position_)) {
    return Broken(spec_, fmt::format("{} positions of its prompt from {}, expected those from {}", count, event.first_position, position_));
  }
  position_ += static_cast<std::int32_t>(count);
  const std::int32_t known = std::min(std::max(reported_ - event.first_position, 0), static_cast<std::int32_t>(count));
  event.first_position += known;
  if (spec_.prompt_output == PromptOutput::kLogits) {
    event.logits.erase(event.logits.begin(), event.logits.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(known) * vocabulary));
  } else {
    event.scores.erase(event.scores.begin(), event.scores.begin() + known);
  }
  if (static_cast<std::size_t>(known) == count) {
    ++taken_;  // all of it was delivered before
  } else {
    held_.push_back({std::move(event), position_});
  }
  return true;
}

Result<bool> RemoteRequest::Take(TokenEvent event, const ExecutorLimits& limits) {
  if (event.epoch != spec_.epoch) return false;
  SKEIN_RETURN_IF_ERROR(CheckRoom());
  const auto outside = [&](TokenId token) { return token < 0 || token >= limits.vocabulary; };
  if (event.index != next_index_ || event.index >= spec_.max_tokens) {
    return Broken(spec_, fmt::format("token {} where {} was expected", event.index, next_index_));
  }
  const bool top_outside = std::any_of(event.token.top.begin(), event.token.top.end(), [&](const auto& top) { return outside(top.token); });
  if (outside(event.token.token) || top_outside) return Broken(spec_, "a token outside the vocabulary");
  ++next_index_;
  held_.push_back({std::move(event)});
  return true;
}

Result<bool> RemoteRequest::Take(FinishedEvent event, std::int64_t now_ns) {
  if (event.epoch != spec_.epoch) return false;
  if (event.reason == FinishReason::kNone) return Broken(spec_, "an end without a reason");
  FinishedEvent own = End(event.reason, now_ns);
  own.error = std::move(event.error);
  own.refused = event.refused && !begun();
  own.generated_tokens = next_index_;
  own.cached_tokens = std::clamp(event.cached_tokens, 0, spec_.prompt_tokens);
  const std::int64_t before_ns = sent_ns_ - submitted_ns_;
  own.queued_ns = begun_before_ ? own.first_token_ns : std::clamp<std::int64_t>(event.queued_ns + before_ns, 0, own.total_ns);
  if (!begun_before_ && event.first_token_ns > 0) {
    own.first_token_ns = std::clamp<std::int64_t>(event.first_token_ns + before_ns, 0, own.total_ns);
  }
  held_.push_back({std::move(own)});
  return true;
}

FinishedEvent RemoteRequest::End(FinishReason reason, std::int64_t now_ns) const {
  const std::int64_t first_ns = first_token_ns_ == 0 ? 0 : first_token_ns_ - submitted_ns_;
  const std::int64_t total_ns = now_ns - submitted_ns_;
  return {.request = spec_.request,
          .epoch = own_epoch_,
          .reason = reason,
          .prompt_tokens = spec_.prompt_tokens,
          .generated_tokens = generated(),
          .queued_ns = first_ns == 0 ? total_ns : first_ns,
          .first_token_ns = first_ns,
          .total_ns = total_ns};
}

SinkEvent RemoteRequest::TakeHeld(std::int64_t now_ns) {
  Held held = std::move(held_.front());
  held_.pop_front();
  ++delivered_;
  ++taken_;
  if (auto* token = std::get_if<TokenEvent>(&held.event)) {
    token->epoch = own_epoch_;
    if (first_token_ns_ == 0) first_token_ns_ = now_ns;
    spec_.tokens.push_back(token->token.token);
  } else if (auto* prompt = std::get_if<PromptEvent>(&held.event)) {
    prompt->epoch = own_epoch_;
    pooled_ = !prompt->hidden.empty();
    reported_ = held.prompt_end;
  }
  return std::move(held.event);
}

std::uint32_t RemoteRequest::TakeCredit() {
  return taken_ * 2 >= window_ ? std::exchange(taken_, 0) : 0;
}

}  // namespace skein::engine
