// SPDX-License-Identifier: Apache-2.0
#include "server/openai/embedding_request.h"

#include <fmt/format.h>

#include "server/openai/field_tables.h"
#include "server/openai/generation_fields.h"
#include "server/openai/prompts.h"

namespace skein::server {

ApiResult<EmbeddingRequest> ParseEmbedding(const HttpRequest& request, const ModelCard& card) {
  SKEIN_API_ASSIGN_OR_RETURN(const boost::json::object body, ReadBody(request.body, EmbeddingFields()));
  const Fields fields(body, EmbeddingFields());
  if (std::optional<ApiError> error = CheckModel(fields, card)) return *error;
  EmbeddingRequest out;
  out.model = fields.Has("model") ? fields.Text("model") : card.id;
  out.user = fields.Text("user");
  const std::string format = fields.Text("encoding_format");
  if (!format.empty() && format != "float" && format != "base64") {
    return BadField("encoding_format", fmt::format("encoding_format is float or base64, found {}",
                                                   Shown(*fields.Find("encoding_format"))));
  }
  out.base64 = format == "base64";
  const std::int64_t dimensions = fields.TryInteger("dimensions").value_or(card.embedding_dimensions);
  if (dimensions != card.embedding_dimensions) {
    return BadField("dimensions", fmt::format("dimensions is {}, and the model has {}; leave it out", dimensions,
                                              card.embedding_dimensions));
  }
  const PromptRules rules{.field = "input", .add_special = fields.Flag("add_special_tokens"), .parse_special = false};
  SKEIN_API_ASSIGN_OR_RETURN(std::vector<PromptTokens> prompts, ReadPrompts(*fields.Find("input"), rules, card));
  out.inputs.reserve(prompts.size());
  for (PromptTokens& prompt : prompts) out.inputs.push_back(std::move(prompt.tokens));
  return out;
}

}  // namespace skein::server
