// SPDX-License-Identifier: Apache-2.0
#include "server/openai/completion_request.h"

#include <fmt/format.h>

#include "server/openai/field_tables.h"
#include "server/openai/generation_fields.h"
#include "server/openai/prompts.h"

namespace skein::server {
namespace {

std::optional<ApiError> ReadOwnFields(const Fields& fields, std::int32_t wanted, GenerationRequest& out) {
  if (const std::optional<std::int64_t> count = fields.TryInteger("logprobs")) {
    out.logprobs = true;
    out.top_logprobs = static_cast<std::int32_t>(*count);
  }
  out.echo = fields.Flag("echo");
  if (wanted == 0 && !out.echo) {
    return BadField("max_tokens", "max_tokens is 0, which gives an empty answer; ask for 1 or more, or set echo to true");
  }
  const std::int64_t best_of = fields.TryInteger("best_of").value_or(out.n);
  if (best_of != out.n) {
    return BadField("best_of", fmt::format("best_of is {} and n is {}; only equal values are available", best_of, out.n));
  }
  return CheckMinTokens(out.min_tokens, wanted);
}

}  // namespace

ApiResult<GenerationRequest> ParseCompletion(const HttpRequest& request, const ModelCard& card) {
  SKEIN_API_ASSIGN_OR_RETURN(const boost::json::object body, ReadBody(request.body, CompletionFields()));
  const Fields fields(body, CompletionFields());
  GenerationRequest out;
  out.kind = GenerationRequest::Kind::kCompletion;
  if (std::optional<ApiError> error = ReadGenerationFields(fields, request, card, out)) return *error;
  const auto wanted = WantedTokens(fields).value_or(static_cast<std::int32_t>(fields.Integer("max_tokens")));
  if (std::optional<ApiError> error = ReadOwnFields(fields, wanted, out)) return *error;

  const boost::json::value& prompt = *fields.Find("prompt");
  const ApiResult<std::size_t> count = CountPrompts(prompt, "prompt");
  if (!count.ok()) return count.error();
  if (static_cast<std::int64_t>(*count) * out.n > kChoicesMax) {
    return BadField("n", fmt::format("{} prompts with n = {} are {} choices, limit is {}; ask for fewer at once", *count,
                                     out.n, static_cast<std::int64_t>(*count) * out.n, kChoicesMax));
  }
  const PromptRules rules{.field = "prompt", .add_special = fields.Flag("add_special_tokens"), .decode_ids = out.echo};
  SKEIN_API_ASSIGN_OR_RETURN(out.prompts, ReadPrompts(prompt, rules, card));
  for (PromptTokens& one : out.prompts) {
    if (std::optional<ApiError> error = LimitToContext(one, wanted, "prompt", card)) return *error;
  }
  return out;
}

}  // namespace skein::server
