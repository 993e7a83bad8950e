// SPDX-License-Identifier: Apache-2.0
#include "server/openai/chat_request.h"

#include "server/openai/chat_prompt.h"
#include "server/openai/field_tables.h"
#include "server/openai/generation_fields.h"
#include "server/openai/prompts.h"

namespace skein::server {

ApiResult<GenerationRequest> ParseChat(const HttpRequest& request, const ModelCard& card) {
  SKEIN_API_ASSIGN_OR_RETURN(const boost::json::object body, ReadBody(request.body, ChatFields()));
  const Fields fields(body, ChatFields());
  GenerationRequest out;
  out.kind = GenerationRequest::Kind::kChat;
  if (std::optional<ApiError> error = ReadGenerationFields(fields, request, card, out)) return *error;
  const std::optional<std::int32_t> wanted = WantedTokens(fields);
  if (std::optional<ApiError> error = CheckMinTokens(out.min_tokens, wanted)) return *error;
  out.logprobs = fields.Flag("logprobs");
  out.top_logprobs = static_cast<std::int32_t>(fields.Integer("top_logprobs"));
  if (out.top_logprobs > 0 && !out.logprobs) {
    return BadField("top_logprobs", "top_logprobs goes with \"logprobs\": true; set it or leave this out");
  }
  SKEIN_API_ASSIGN_OR_RETURN(ChatPrompt prompt, RenderChat(fields, fields.Flag("add_special_tokens"), card));
  out.generation_prompt_opens_reasoning = prompt.opens_reasoning;
  out.prompts.push_back({.tokens = std::move(prompt.tokens), .text = std::move(prompt.text)});
  if (std::optional<ApiError> error = LimitToContext(out.prompts.front(), wanted, "messages", card)) return *error;
  return out;
}

}  // namespace skein::server
