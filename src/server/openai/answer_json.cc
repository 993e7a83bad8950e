// SPDX-License-Identifier: Apache-2.0
#include "server/openai/answer_json.h"

#include <utility>

#include "server/openai/logprobs_json.h"

namespace skein::server {
namespace {

void WriteIds(std::span<const TokenId> ids, JsonWriter& json) {
  json.BeginArray();
  for (const TokenId id : ids) json.Value(id);
  json.EndArray();
}

void WriteUsage(const Usage& usage, JsonWriter& json) {
  json.BeginObject().Member("prompt_tokens", usage.prompt_tokens).Member("completion_tokens", usage.completion_tokens);
  json.Member("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  json.Key("prompt_tokens_details").BeginObject().Member("cached_tokens", usage.cached_tokens).EndObject();
  json.Key("completion_tokens_details").BeginObject().Member("reasoning_tokens", usage.reasoning_tokens).EndObject();
  json.EndObject();
}

void WriteHead(const AnswerHead& head, std::string_view object, JsonWriter& json) {
  json.Member("id", head.id).Member("object", object).Member("created", head.created_s);
  json.Member("model", head.model).Member("system_fingerprint", head.fingerprint);
}

}  // namespace

AnswerWriter::AnswerWriter(const text::Tokenizer& tokenizer, const GenerationRequest& request, AnswerHead head)
    : tokenizer_(tokenizer), request_(request), head_(std::move(head)) {
  JsonWriter json;
  json.BeginObject();
  WriteHead(head_, chat() ? "chat.completion.chunk" : "text_completion", json);
  chunk_head_ = "data: " + json.Take() + ",\"choices\":[";
}

void AnswerWriter::AppendTail(const Usage& so_far, std::string& out) const {
  if (request_.continuous_usage && request_.include_usage) {
    JsonWriter json;
    WriteUsage(so_far, json);
    out += "],\"usage\":";
    out += json.text();
    out += "}\n\n";
  } else {
    out += request_.include_usage ? "],\"usage\":null}\n\n" : "]}\n\n";
  }
}

void AnswerWriter::AppendRole(std::size_t index, std::string& out) const {
  out += chunk_head_;
  out += "{\"index\":" + std::to_string(index);
  out += ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}";
  if (request_.return_token_ids) {
    JsonWriter ids;
    WriteIds(PromptOf(index).tokens, ids);
    out += "],\"prompt_token_ids\":" + ids.text();
    out += request_.include_usage ? ",\"usage\":null}\n\n" : "}\n\n";
    return;
  }
  AppendTail({}, out);
}

void AnswerWriter::AppendChunk(std::size_t index, const ChoicePiece& piece, const Usage& so_far, std::string& out) const {
  out += chunk_head_;
  out += "{\"index\":" + std::to_string(index);
  if (chat()) {
    out += ",\"delta\":{";
    if (!piece.reasoning.empty()) {
      out += "\"reasoning_content\":";
      AppendJsonString(out, piece.reasoning);
    }
    if (!piece.content.empty()) {
      out += piece.reasoning.empty() ? "\"content\":" : ",\"content\":";
      AppendJsonString(out, piece.content);
    }
    out += '}';
  } else {
    out += ",\"text\":";
    AppendJsonString(out, piece.content);
  }
  if (request_.logprobs && !piece.entries.empty()) {
    JsonWriter json;
    WriteLogprobs(piece, json);
    out += ",\"logprobs\":";
    out += json.text();
  } else {
    out += ",\"logprobs\":null";
  }
  if (request_.return_token_ids) {
    JsonWriter json;
    WriteIds(piece.token_ids, json);
    out += ",\"token_ids\":";
    out += json.text();
  }
  if (piece.finish_reason.empty()) {
    out += ",\"finish_reason\":null}";
  } else {
    out += ",\"finish_reason\":\"" + piece.finish_reason + "\",\"stop_reason\":" + piece.stop_reason + "}";
  }
  AppendTail(so_far, out);
}

void AnswerWriter::AppendUsage(const Usage& usage, std::string& out) const {
  JsonWriter json;
  WriteUsage(usage, json);
  out += chunk_head_;
  out += "],\"usage\":" + json.text() + "}\n\n";
}

void AnswerWriter::WriteLogprobs(const ChoicePiece& piece, JsonWriter& json) const {
  if (chat()) {
    WriteChatLogprobs(tokenizer_, piece.entries, request_.top_logprobs, json);
  } else {
    WriteCompletionLogprobs(tokenizer_, piece.entries, request_.top_logprobs, json);
  }
}

void AnswerWriter::WriteWholeChoice(std::size_t index, const WholeChoice& choice, JsonWriter& json) const {
  const ChoicePiece& piece = choice.piece;
  json.BeginObject().Member("index", static_cast<std::uint64_t>(index));
  if (chat()) {
    json.Key("message").BeginObject().Member("role", "assistant").Member("content", piece.content);
    if (!piece.reasoning.empty()) json.Member("reasoning_content", piece.reasoning);
    json.Key("refusal").Null().EndObject();
  } else {
    json.Member("text", piece.content);
  }
  json.Key("logprobs");
  if (request_.logprobs) {
    WriteLogprobs(piece, json);
  } else {
    json.Null();
  }
  json.Member("finish_reason", piece.finish_reason).Key("stop_reason").Raw(piece.stop_reason);
  if (request_.return_token_ids) {
    json.Key("token_ids");
    WriteIds(piece.token_ids, json);
    if (!chat()) {
      json.Key("prompt_token_ids");
      WriteIds(PromptOf(index).tokens, json);
    }
  }
  if (!chat() && request_.prompt_logprobs) {
    json.Key("prompt_logprobs");
    WritePromptLogprobs(tokenizer_, choice.prompt_entries, *request_.prompt_logprobs, json);
  }
  json.EndObject();
}

std::string AnswerWriter::Whole(std::span<const WholeChoice> choices, const Usage& usage) const {
  JsonWriter json;
  json.BeginObject();
  WriteHead(head_, chat() ? "chat.completion" : "text_completion", json);
  json.Key("choices").BeginArray();
  for (std::size_t index = 0; index < choices.size(); ++index) WriteWholeChoice(index, choices[index], json);
  json.EndArray().Key("usage");
  WriteUsage(usage, json);
  if (chat() && request_.return_token_ids) {
    json.Key("prompt_token_ids");
    WriteIds(request_.prompts[0].tokens, json);
  }
  if (chat() && request_.prompt_logprobs && !choices.empty()) {
    json.Key("prompt_logprobs");
    WritePromptLogprobs(tokenizer_, choices[0].prompt_entries, *request_.prompt_logprobs, json);
  }
  json.EndObject();
  return json.Take();
}

}  // namespace skein::server
