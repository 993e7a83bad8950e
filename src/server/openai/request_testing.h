// SPDX-License-Identifier: Apache-2.0
//
// For tests only: a model's card with a tiny tokenizer and a small template, and requests made of JSON.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "server/http/http_request.h"
#include "server/openai/api_error.h"
#include "server/openai/model_card.h"
#include "text/tiny_tokenizer.h"

namespace skein::server {

// Writes "<|end|>role:content\n" for every message; with the variable enable_thinking an answer begins with <think>.
inline constexpr std::string_view kTinyTemplate =
    "{% for message in messages %}<|end|>{{ message.role }}:{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|end|>assistant:{% if enable_thinking %}<think>\n{% endif %}{% endif %}";

// Ids 0 to 255 are bytes, 256 "he", 400 <|end|>, 401 <think>.
struct TinyModel {
  explicit TinyModel(std::string_view source = kTinyTemplate) : tokenizer(text::TinyTokenizer{.merges = {{"h", "e"}}}.Make()) {
    auto parsed = text::ChatTemplate::Parse(source);
    if (!parsed.ok()) ADD_FAILURE() << parsed.status().message();
    if (parsed.ok()) chat_template = std::move(parsed).value();
    card.id = "tiny";
    card.aliases = {"also-tiny"};
    card.tokenizer = tokenizer.get();
    card.chat_template = chat_template.get();
    card.stop_tokens = {400};
    card.context = 64;
    card.vocabulary = tokenizer->vocabulary_size();
    card.embedding_dimensions = 32;
    card.eos = "<|end|>";
  }
  TinyModel(const TinyModel&) = delete;
  TinyModel& operator=(const TinyModel&) = delete;

  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<const text::ChatTemplate> chat_template;
  ModelCard card;
};

inline HttpRequest RequestOf(std::string body) {
  HttpRequest request;
  request.method = "POST";
  request.body = std::move(body);
  return request;
}

// The field that a refusal names, or how it differs from a refusal of a field: "ok", "404 model".
template <typename T>
std::string RefusedField(const ApiResult<T>& result) {
  if (result.ok()) return "ok";
  const ApiError& error = result.error();
  EXPECT_FALSE(error.message.empty());
  return error.status == 400 ? error.param : std::to_string(error.status) + " " + error.param;
}

}  // namespace skein::server
