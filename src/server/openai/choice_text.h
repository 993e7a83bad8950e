// SPDX-License-Identifier: Apache-2.0
//
// ChoiceText turns one choice's tokens into what its client sees: text in whole characters, cut exactly in front of a
// stop text, parted into reasoning and content, with log-probabilities in step with the text. Whole and streamed
// answers are made of the same pieces, so they agree. Pure; owned by the I/O thread, one per choice.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "engine/engine_client.h"
#include "server/openai/reasoning_splitter.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace skein::server {

// One token with its log-probability, ready to be shown.
struct TokenEntry {
  scheduler::ScoredToken scored;
  std::int64_t text_offset = 0;  // characters of the choice's text in front of it
  bool has_logprob = true;       // the first token of a prompt has none
};

// What a choice grew by since the last look.
struct ChoicePiece {
  std::string content, reasoning;
  std::vector<TokenEntry> entries;   // when log-probabilities were asked for
  std::vector<TokenId> token_ids;    // when ids were asked for
  std::string finish_reason;         // "stop", "length"; empty: it goes on
  std::string stop_reason;           // JSON: null, the stop text or the stop token's id; with finish_reason

  bool empty() const {
    return content.empty() && reasoning.empty() && entries.empty() && token_ids.empty() && finish_reason.empty();
  }
  void Clear() { *this = ChoicePiece(); }
};

struct ChoiceTextOptions {
  std::vector<std::string> stop = {};
  bool include_stop = false;
  std::vector<TokenId> stop_tokens = {};  // the engine ends at these; their text is not shown
  std::int32_t min_tokens = 0;       // stop texts are not looked for in the first so many tokens
  bool skip_special = true;
  bool logprobs = false;
  bool token_ids = false;
  bool reasoning = false;            // the model's template knows <think>
  bool opens_reasoning = false;
  std::int64_t text_offset = 0;      // characters in front of the answer (an echoed prompt)
};

class ChoiceText {
 public:
  // `tokenizer` outlives it.
  ChoiceText(const text::Tokenizer& tokenizer, ChoiceTextOptions options);

  // Adds what the token brings to `piece`. False: a stop text is complete, the choice has ended (its finish_reason is
  // set) and no further token is wanted. Requires: not ended yet.
  bool Push(scheduler::ScoredToken token, ChoicePiece& piece);
  // The engine made the last token: adds what was held back, and the finish reason. Nothing when it ended before.
  void Finish(engine::FinishReason reason, ChoicePiece& piece);

  bool ended() const { return ended_; }
  std::int32_t token_count() const { return token_count_; }  // up to and including the one that completed a stop text
  std::int32_t reasoning_token_count() const { return reasoning_token_count_; }

 private:
  struct Waiting {
    TokenEntry entry;
    std::size_t begin = 0;  // bytes of text in front of it
    bool has_text = true;
  };

  void Emit(std::string_view text, ChoicePiece& piece);
  void Match(std::string_view text, ChoicePiece& piece);
  void ReleaseEntries(ChoicePiece& piece, bool all);
  void End(std::string finish_reason, std::string stop_reason, ChoicePiece& piece);

  const ChoiceTextOptions options_;
  const text::Tokenizer& tokenizer_;
  text::Detokenizer detokenizer_;
  text::StopMatcher stops_;
  ReasoningSplitter splitter_;
  std::deque<Waiting> waiting_;      // entries whose text is not certain yet
  std::size_t bytes_ = 0;            // of detokenized text
  std::int64_t characters_ = 0;      // of detokenized text
  std::size_t kept_bytes_ = 0;       // of text that has been given out
  std::int32_t token_count_ = 0;
  std::int32_t reasoning_token_count_ = 0;
  std::optional<TokenId> stop_token_;
  bool ended_ = false;
};

// Characters (code points) of a text.
std::int64_t CountCharacters(std::string_view text);

}  // namespace skein::server
