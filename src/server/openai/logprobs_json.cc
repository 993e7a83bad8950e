// SPDX-License-Identifier: Apache-2.0
#include "server/openai/logprobs_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "text/unicode.h"

namespace skein::server {
namespace {

// What a client gets for a token that cannot be (its logit is minus infinity); JSON has no infinities.
constexpr float kLogprobMin = -9999.0f;

float Shown(float logprob) { return logprob < kLogprobMin ? kLogprobMin : logprob; }

void WriteBytes(std::string_view bytes, JsonWriter& json) {
  json.BeginArray();
  for (const char byte : bytes) json.Value(static_cast<int>(static_cast<unsigned char>(byte)));
  json.EndArray();
}

void WriteChatToken(const text::Tokenizer& tokenizer, TokenId token, float logprob, JsonWriter& json) {
  json.Member("token", TokenAsText(tokenizer, token)).Member("logprob", Shown(logprob)).Key("bytes");
  WriteBytes(tokenizer.PieceBytes(token), json);
}

std::size_t TopCount(const TokenEntry& entry, std::int32_t top) {
  return std::min(entry.scored.top.size(), static_cast<std::size_t>(std::max(top, 0)));
}

// Legacy completions tell pieces of characters apart from text by a word in front.
std::string CompletionToken(const text::Tokenizer& tokenizer, TokenId token) {
  std::string text = TokenAsText(tokenizer, token);
  return text::IsValidUtf8(tokenizer.PieceBytes(token)) ? text : "bytes:" + text;
}

// Alternatives by their text. Two tokens may have one text: the likelier one is shown, as a JSON object has a key once.
void WriteAlternatives(const text::Tokenizer& tokenizer, const TokenEntry& entry, std::int32_t top, JsonWriter& json) {
  std::vector<std::pair<std::string, float>> shown;
  const auto add = [&](TokenId token, float logprob) {
    std::string text = CompletionToken(tokenizer, token);
    for (const auto& [earlier, value] : shown) {
      if (earlier == text) return;
    }
    shown.emplace_back(std::move(text), logprob);
  };
  for (std::size_t i = 0; i < TopCount(entry, top); ++i) add(entry.scored.top[i].token, entry.scored.top[i].logprob);
  add(entry.scored.token, entry.scored.logprob);
  json.BeginObject();
  for (const auto& [text, logprob] : shown) json.Member(text, Shown(logprob));
  json.EndObject();
}

}  // namespace

std::string TokenAsText(const text::Tokenizer& tokenizer, TokenId token) {
  const std::string_view bytes = tokenizer.PieceBytes(token);
  if (text::IsValidUtf8(bytes)) return std::string(bytes);
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    if (value < 0x80) {
      text += byte;
    } else {
      fmt::format_to(std::back_inserter(text), "\\x{:02x}", value);
    }
  }
  return text;
}

void WriteChatLogprobs(const text::Tokenizer& tokenizer, std::span<const TokenEntry> entries, std::int32_t top,
                       JsonWriter& json) {
  json.BeginObject().Key("content").BeginArray();
  for (const TokenEntry& entry : entries) {
    json.BeginObject();
    WriteChatToken(tokenizer, entry.scored.token, entry.scored.logprob, json);
    json.Key("top_logprobs").BeginArray();
    for (std::size_t i = 0; i < TopCount(entry, top); ++i) {
      json.BeginObject();
      WriteChatToken(tokenizer, entry.scored.top[i].token, entry.scored.top[i].logprob, json);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().Key("refusal").Null().EndObject();
}

void WriteCompletionLogprobs(const text::Tokenizer& tokenizer, std::span<const TokenEntry> entries, std::int32_t top,
                             JsonWriter& json) {
  json.BeginObject().Key("tokens").BeginArray();
  for (const TokenEntry& entry : entries) json.Value(CompletionToken(tokenizer, entry.scored.token));
  json.EndArray().Key("token_logprobs").BeginArray();
  for (const TokenEntry& entry : entries) {
    entry.has_logprob ? json.Value(Shown(entry.scored.logprob)) : json.Null();
  }
  json.EndArray().Key("top_logprobs").BeginArray();
  for (const TokenEntry& entry : entries) {
    if (entry.has_logprob) {
      WriteAlternatives(tokenizer, entry, top, json);
    } else {
      json.Null();
    }
  }
  json.EndArray().Key("text_offset").BeginArray();
  for (const TokenEntry& entry : entries) json.Value(entry.text_offset);
  json.EndArray().EndObject();
}

void WritePromptLogprobs(const text::Tokenizer& tokenizer, std::span<const TokenEntry> entries, std::int32_t top,
                         JsonWriter& json) {
  json.BeginArray();
  for (const TokenEntry& entry : entries) {
    if (!entry.has_logprob) {
      json.Null();
      continue;
    }
    json.BeginObject();
    const auto write = [&](TokenId token, float logprob, int rank) {
      json.Key(std::to_string(token)).BeginObject().Member("logprob", Shown(logprob));
      json.Key("rank");
      rank > 0 ? json.Value(rank) : json.Null();  // beyond the alternatives nobody counted
      json.Member("decoded_token", TokenAsText(tokenizer, token)).EndObject();
    };
    bool listed = false;
    for (std::size_t i = 0; i < TopCount(entry, top); ++i) {
      listed = listed || entry.scored.top[i].token == entry.scored.token;
      write(entry.scored.top[i].token, entry.scored.top[i].logprob, static_cast<int>(i) + 1);
    }
    if (!listed) write(entry.scored.token, entry.scored.logprob, 0);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace skein::server
