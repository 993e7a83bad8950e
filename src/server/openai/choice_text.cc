// SPDX-License-Identifier: Apache-2.0
#include "server/openai/choice_text.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/json_writer.h"

namespace skein::server {

std::int64_t CountCharacters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

ChoiceText::ChoiceText(const text::Tokenizer& tokenizer, ChoiceTextOptions options)
    : options_(std::move(options)),
      tokenizer_(tokenizer),
      detokenizer_(tokenizer, options_.skip_special),
      stops_(options_.stop),
      splitter_(options_.opens_reasoning) {}

bool ChoiceText::Push(scheduler::ScoredToken token, ChoicePiece& piece) {
  SKEIN_CHECK(!ended_);
  ++token_count_;
  if (options_.token_ids) piece.token_ids.push_back(token.token);
  const bool stops = std::find(options_.stop_tokens.begin(), options_.stop_tokens.end(), token.token) !=
                     options_.stop_tokens.end();
  if (stops) stop_token_ = token.token;
  const bool shown = !stops || options_.include_stop;
  const std::string text = shown ? detokenizer_.Push(token.token) : std::string();
  if (options_.logprobs) {
    const bool skipped = options_.skip_special && tokenizer_.IsSpecial(token.token);
    waiting_.push_back({.entry = {.scored = std::move(token), .text_offset = options_.text_offset + characters_},
                        .begin = bytes_,
                        .has_text = shown && !skipped});
  }
  bytes_ += text.size();
  characters_ += CountCharacters(text);
  if (token_count_ <= options_.min_tokens) {
    Emit(text, piece);
  } else {
    Match(text, piece);
  }
  if (options_.reasoning && splitter_.in_reasoning()) ++reasoning_token_count_;
  if (!ended_) ReleaseEntries(piece, /*all=*/false);
  return !ended_;
}

// Looks for stop texts. Ends the choice when there is one.
void ChoiceText::Match(std::string_view text, ChoicePiece& piece) {
  const text::StopMatcher::Answer matched = stops_.Push(text);
  Emit(matched.emit, piece);
  if (!matched.stopped) return;
  const std::string& stop = options_.stop[static_cast<std::size_t>(matched.stop_index)];
  if (options_.include_stop) Emit(stop, piece);
  std::string reason;
  AppendJsonString(reason, stop);
  ReleaseEntries(piece, /*all=*/false);
  End("stop", std::move(reason), piece);
}

void ChoiceText::Emit(std::string_view text, ChoicePiece& piece) {
  kept_bytes_ += text.size();
  if (options_.reasoning) {
    splitter_.Push(text, piece.reasoning, piece.content);
  } else {
    piece.content.append(text);
  }
}

// An entry goes out with the first byte of its text. One without text goes out when everything in front of it has.
void ChoiceText::ReleaseEntries(ChoicePiece& piece, bool all) {
  while (!waiting_.empty()) {
    Waiting& next = waiting_.front();
    const bool certain = next.has_text ? next.begin < kept_bytes_ : next.begin <= kept_bytes_;
    if (!certain && !all) return;
    piece.entries.push_back(std::move(next.entry));
    waiting_.pop_front();
  }
}

void ChoiceText::Finish(engine::FinishReason reason, ChoicePiece& piece) {
  if (ended_) return;
  const std::string rest = detokenizer_.Finish();
  bytes_ += rest.size();
  if (token_count_ <= options_.min_tokens) {
    Emit(rest, piece);
  } else {
    Match(rest, piece);
    if (ended_) return;
    Emit(stops_.Finish(), piece);
  }
  ReleaseEntries(piece, /*all=*/true);
  const bool stopped = reason == engine::FinishReason::kStop;
  End(stopped ? "stop" : "length", stopped && stop_token_ ? std::to_string(*stop_token_) : "null", piece);
}

void ChoiceText::End(std::string finish_reason, std::string stop_reason, ChoicePiece& piece) {
  if (options_.reasoning) splitter_.Finish(piece.reasoning, piece.content);
  piece.finish_reason = std::move(finish_reason);
  piece.stop_reason = std::move(stop_reason);
  waiting_.clear();
  ended_ = true;
}

}  // namespace skein::server
