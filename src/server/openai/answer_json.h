// SPDX-License-Identifier: Apache-2.0
//
// The JSON of answers as OpenAI's clients read it: a whole one, or the events of a stream. Chat and completions differ
// in words only, so one writer does both. What does not change from chunk to chunk is put together once.
//
// Owned by the I/O thread, one per request.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "server/openai/choice_text.h"
#include "server/openai/generation_request.h"
#include "text/tokenizer.h"

namespace skein::server {

// What every part of an answer repeats.
struct AnswerHead {
  std::string id;  // "chatcmpl-…", "cmpl-…"
  std::int64_t created_s = 0;
  std::string model;
  std::string fingerprint;
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompt's, found in the prefix index
  std::int64_t completion_tokens = 0;
  std::int64_t reasoning_tokens = 0;
};

// One choice, whole.
struct WholeChoice {
  ChoicePiece piece;                       // everything it grew by
  std::vector<TokenEntry> prompt_entries;  // with echo or prompt_logprobs
};

class AnswerWriter {
 public:
  // `tokenizer` and `request` outlive it.
  AnswerWriter(const text::Tokenizer& tokenizer, const GenerationRequest& request, AnswerHead head);

  // Events, appended to `out`. Chat's first chunk of a choice.
  void AppendRole(std::size_t index, std::string& out) const;
  void AppendChunk(std::size_t index, const ChoicePiece& piece, const Usage& so_far, std::string& out) const;
  void AppendUsage(const Usage& usage, std::string& out) const;
  static void AppendDone(std::string& out) { out += "data: [DONE]\n\n"; }

  std::string Whole(std::span<const WholeChoice> choices, const Usage& usage) const;

 private:
  bool chat() const { return request_.kind == GenerationRequest::Kind::kChat; }
  const PromptTokens& PromptOf(std::size_t index) const {
    return request_.prompts[index / static_cast<std::size_t>(request_.n)];
  }
  void AppendTail(const Usage& so_far, std::string& out) const;
  void WriteLogprobs(const ChoicePiece& piece, JsonWriter& json) const;
  void WriteWholeChoice(std::size_t index, const WholeChoice& choice, JsonWriter& json) const;

  const text::Tokenizer& tokenizer_;
  const GenerationRequest& request_;
  const AnswerHead head_;
  std::string chunk_head_;  // data: {"id":…,"choices":[{"index":
};

}  // namespace skein::server
