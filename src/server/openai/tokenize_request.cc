// SPDX-License-Identifier: Apache-2.0
#include "server/openai/tokenize_request.h"

#include <fmt/format.h>

#include "base/json_writer.h"
#include "server/openai/chat_prompt.h"
#include "server/openai/field_tables.h"
#include "server/openai/generation_fields.h"
#include "server/openai/prompts.h"

namespace skein::server {
namespace {

// The one of prompt, content and messages that is there.
ApiResult<std::string_view> SourceOf(const Fields& fields) {
  std::string_view source;
  for (const std::string_view name : {"prompt", "content", "messages"}) {
    if (!fields.Has(name)) continue;
    if (!source.empty()) return BadField(name, fmt::format("{} and {} cannot both be given", source, name));
    source = name;
  }
  if (source.empty()) return BadField("prompt", "prompt is missing: the text to tokenize; or messages, a conversation");
  return source;
}

ApiResult<std::vector<TokenId>> TokensOf(const Fields& fields, const ModelCard& card) {
  SKEIN_API_ASSIGN_OR_RETURN(const std::string_view source, SourceOf(fields));
  const bool add_special = fields.Flag("add_special_tokens");
  if (source == "messages") {
    // The template writes the begin token itself where the model wants one.
    SKEIN_API_ASSIGN_OR_RETURN(ChatPrompt prompt, RenderChat(fields, fields.Has("add_special_tokens") && add_special, card));
    return std::move(prompt.tokens);
  }
  return card.tokenizer->Encode(fields.Text(source), {.add_special = add_special, .parse_special = true});
}

}  // namespace

ApiResult<std::string> Tokenize(const HttpRequest& request, const ModelCard& card) {
  SKEIN_API_ASSIGN_OR_RETURN(const boost::json::object body, ReadBody(request.body, TokenizeFields()));
  const Fields fields(body, TokenizeFields());
  if (std::optional<ApiError> error = CheckModel(fields, card)) return *error;
  SKEIN_API_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, TokensOf(fields, card));
  JsonWriter out;
  out.BeginObject();
  out.Member("count", static_cast<std::uint64_t>(tokens.size()));
  out.Member("max_model_len", card.context);
  out.Key("tokens").BeginArray();
  for (const TokenId token : tokens) out.Value(token);
  out.EndArray();
  if (fields.Flag("return_token_strs")) {
    out.Key("token_strs").BeginArray();
    for (const TokenId token : tokens) out.Value(card.tokenizer->PieceBytes(token));
    out.EndArray();
  }
  out.EndObject();
  return out.Take();
}

ApiResult<std::string> Detokenize(const HttpRequest& request, const ModelCard& card) {
  SKEIN_API_ASSIGN_OR_RETURN(const boost::json::object body, ReadBody(request.body, DetokenizeFields()));
  const Fields fields(body, DetokenizeFields());
  if (std::optional<ApiError> error = CheckModel(fields, card)) return *error;
  const boost::json::array& ids = fields.Find("tokens")->get_array();
  std::vector<TokenId> tokens;  // none is no mistake: what /tokenize gives for an empty text
  if (!ids.empty()) {
    SKEIN_API_ASSIGN_OR_RETURN(tokens, ReadTokenIds(ids, "tokens", card));
  }
  JsonWriter out;
  out.BeginObject();
  out.Member("prompt", card.tokenizer->Decode(tokens, /*skip_special=*/false));
  out.EndObject();
  return out.Take();
}

}  // namespace skein::server
