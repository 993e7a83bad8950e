// SPDX-License-Identifier: Apache-2.0
#include "bench_serve_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

namespace skein::app {
namespace {

namespace json = boost::json;

constexpr std::size_t kDepthMax = 32;
constexpr std::size_t kShownBytes = 160;

// Messages come from outside and go to a terminal.
std::string Shown(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, kShownBytes)) {
    shown += static_cast<unsigned char>(c) >= ' ' && c != '\x7f' ? c : ' ';
  }
  return shown;
}

bool Parse(std::string_view text, json::value& value) {
  json::parse_options options;
  options.max_depth = kDepthMax;
  json::error_code error;
  value = json::parse({text.data(), text.size()}, error, {}, options);
  return !error;
}

const json::value* Member(const json::value* value, std::string_view key) {
  if (value == nullptr || !value->is_object()) return nullptr;
  return value->get_object().if_contains({key.data(), key.size()});
}

bool HasText(const json::value* value) { return value != nullptr && value->is_string() && !value->get_string().empty(); }

std::int64_t Count(const json::value* value, std::int64_t fallback) {
  if (value == nullptr) return fallback;
  constexpr std::int64_t kMax = std::int64_t{1} << 40;
  if (value->is_int64()) return std::clamp<std::int64_t>(value->get_int64(), 0, kMax);
  return fallback;
}

const json::value* FirstChoice(const json::value& event) {
  const json::value* choices = Member(&event, "choices");
  if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) return nullptr;
  return &choices->get_array().front();
}

// Whether the event stands for tokens. One may have no text yet (part of a character), but the chat's opening event with
// the role and a closing one with nothing but the reason to finish are no tokens.
bool HasTokens(const json::value& choice) {
  if (HasText(Member(&choice, "text"))) return true;
  const json::value* delta = Member(&choice, "delta");
  if (HasText(Member(delta, "content")) || HasText(Member(delta, "reasoning_content"))) return true;
  const json::value* reason = Member(&choice, "finish_reason");
  const bool ends = reason != nullptr && !reason->is_null();
  return !ends && Member(delta, "role") == nullptr;
}

}  // namespace

bool EventReader::Feed(std::string_view bytes, std::vector<std::string>& events) {
  while (!bytes.empty() && !failed_) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() + data_.size() + part.size() > kEventBytesMax) {
      failed_ = true;
      break;
    }
    line_.append(part);
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
    if (line_.ends_with('\r')) line_.pop_back();
    TakeLine(events);
    line_.clear();
  }
  return !failed_;
}

void EventReader::TakeLine(std::vector<std::string>& events) {
  if (line_.empty()) {
    if (has_data_) events.push_back(std::move(data_));
    data_.clear();
    has_data_ = false;
    return;
  }
  // Other fields (event, id, retry) and comments (pings) say nothing about tokens.
  if (!line_.starts_with("data:")) return;
  if (has_data_) data_ += '\n';
  data_.append(line_, line_.starts_with("data: ") ? 6 : 5);
  has_data_ = true;
}

bool GenerationReader::Fail(std::string reason) {
  if (reason_.empty()) reason_ = std::move(reason);
  return false;
}

bool GenerationReader::OnEvent(std::string_view data, double at_s) {
  if (!reason_.empty()) return false;
  if (data == "[DONE]") {
    done_ = true;
    return true;
  }
  json::value event;
  if (!Parse(data, event) || !event.is_object()) return Fail(fmt::format("an event is no JSON object: '{}'", Shown(data.substr(0, 40))));
  if (Member(&event, "error") != nullptr) return Fail("error in the stream: " + ErrorText(data));
  if (const json::value* usage = Member(&event, "usage"); usage != nullptr && usage->is_object()) {
    prompt_tokens_ = Count(Member(usage, "prompt_tokens"), prompt_tokens_);
    completion_tokens_ = Count(Member(usage, "completion_tokens"), completion_tokens_);
  }
  const json::value* choice = FirstChoice(event);
  if (choice == nullptr) return true;
  if (!answered_) answered_s_ = at_s;
  answered_ = true;
  if (HasTokens(*choice)) {
    if (first_s_ < 0) {
      first_s_ = at_s;
    } else {
      between_s_.push_back(static_cast<float>(at_s - last_s_));
      if (between_s_.size() >= kEventsMax) return Fail(fmt::format("an answer has more than {} events", kEventsMax));
    }
    last_s_ = at_s;
    ++token_events_;
  } else if (first_s_ >= 0) {
    last_s_ = at_s;  // the event that says why it finished; its time is the answer's end
  }
  return true;
}

void GenerationReader::OnEnd(RequestOutcome& outcome) {
  if (reason_.empty() && !answered_) reason_ = "the answer has no token";
  if (reason_.empty() && !done_) reason_ = "the stream ended without [DONE]";
  outcome.completed = reason_.empty();
  outcome.failure = reason_;
  if (prompt_tokens_ >= 0) outcome.input_tokens = prompt_tokens_;
  if (!outcome.completed) return;
  outcome.output_tokens = completion_tokens_ >= 0 ? completion_tokens_ : token_events_;
  outcome.first_token_s = first_s_ >= 0 ? first_s_ : answered_s_;
  outcome.end_s = std::max(last_s_, outcome.first_token_s);
  outcome.between_s = std::move(between_s_);
}

std::string ErrorText(std::string_view body) {
  json::value value;
  if (Parse(body, value)) {
    const json::value* error = Member(&value, "error");
    if (error != nullptr && error->is_string()) return Shown(std::string_view(error->get_string()));
    const json::value* message = Member(error, "message");
    if (message == nullptr) message = Member(&value, "message");
    if (HasText(message)) return Shown(std::string_view(message->get_string()));
  }
  return Shown(body);
}

}  // namespace skein::app
