// SPDX-License-Identifier: Apache-2.0
#include "server/openai/reasoning_splitter.h"

#include <algorithm>

namespace skein::server {
namespace {

constexpr std::string_view kOpen = "<think>";
constexpr std::string_view kClose = "</think>";
constexpr std::string_view kSpace = " \t\r\n";

// How many bytes at the end of `text` may be the beginning of `tag`.
std::size_t BeginningAtEnd(std::string_view text, std::string_view tag) {
  for (std::size_t count = std::min(text.size(), tag.size() - 1); count > 0; --count) {
    if (text.substr(text.size() - count) == tag.substr(0, count)) return count;
  }
  return 0;
}

void DropLeadingSpace(std::string& text) { text.erase(0, std::min(text.find_first_not_of(kSpace), text.size())); }

}  // namespace

void ReasoningSplitter::Push(std::string_view text, std::string& reasoning, std::string& content) {
  if (state_ == State::kContent) {  // the usual case
    content.append(text);
    return;
  }
  held_.append(text);
  while (Advance(reasoning, content)) {
  }
}

// One step of the automaton over what is held. False: more text is needed, or nothing is held.
bool ReasoningSplitter::Advance(std::string& reasoning, std::string& content) {
  switch (state_) {
    case State::kBegins: {
      const std::size_t begin = held_.find_first_not_of(kSpace);
      if (begin == std::string::npos) return false;
      const std::string_view rest = std::string_view(held_).substr(begin);
      if (rest.size() < kOpen.size() && kOpen.starts_with(rest)) return false;
      if (!rest.starts_with(kOpen)) {
        state_ = State::kContent;
        return true;
      }
      held_.erase(0, begin + kOpen.size());
      state_ = State::kReasoningBegins;
      return true;
    }
    case State::kReasoningBegins:
    case State::kContentBegins:
      DropLeadingSpace(held_);
      if (held_.empty()) return false;
      state_ = state_ == State::kContentBegins ? State::kContent : State::kReasoning;
      return true;
    case State::kReasoning: {
      const std::size_t end = held_.find(kClose);
      if (end == std::string::npos) {
        const std::size_t certain = held_.size() - BeginningAtEnd(held_, kClose);
        reasoning.append(held_, 0, certain);
        held_.erase(0, certain);
        return false;
      }
      reasoning.append(held_, 0, end);
      held_.erase(0, end + kClose.size());
      state_ = State::kContentBegins;
      return true;
    }
    case State::kContent:
      content.append(held_);
      held_.clear();
      return false;
  }
  return false;
}

void ReasoningSplitter::Finish(std::string& reasoning, std::string& content) {
  if (state_ == State::kReasoning) {
    reasoning.append(held_);
  } else if (state_ == State::kBegins) {
    content.append(held_);
  }
  held_.clear();
}

}  // namespace skein::server
