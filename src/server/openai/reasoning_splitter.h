// SPDX-License-Identifier: Apache-2.0
//
// ReasoningSplitter parts an answer that begins with <think>…</think> into reasoning and content, as the text comes.
// It holds back only what may still become a tag. White space right after either tag belongs to nobody. One per
// choice, one thread; only for models whose template knows these tags.
#pragma once

#include <string>
#include <string_view>

namespace skein::server {

class ReasoningSplitter {
 public:
  // `opened`: the prompt ended inside <think>, so the answer begins with reasoning.
  explicit ReasoningSplitter(bool opened) : state_(opened ? State::kReasoningBegins : State::kBegins) {}

  // Appends what is certain now to the two texts.
  void Push(std::string_view text, std::string& reasoning, std::string& content);
  // The text is over: what was held back is text after all.
  void Finish(std::string& reasoning, std::string& content);

  bool in_reasoning() const { return state_ == State::kReasoning || state_ == State::kReasoningBegins; }

 private:
  enum class State { kBegins, kReasoningBegins, kReasoning, kContentBegins, kContent };
  bool Advance(std::string& reasoning, std::string& content);

  State state_;
  std::string held_;
};

}  // namespace skein::server
