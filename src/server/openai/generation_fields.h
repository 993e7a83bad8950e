// SPDX-License-Identifier: Apache-2.0
//
// What the requests for chat and for completions have in common: from fields that were checked one by one to a
// GenerationRequest, with the checks that need two of them or the model.
#pragma once

#include <optional>

#include "server/http/http_request.h"
#include "server/openai/api_error.h"
#include "server/openai/fields.h"
#include "server/openai/generation_request.h"
#include "server/openai/model_card.h"

namespace skein::server {

// 404 with the code model_not_found when `model` names another one. No name is this one.
std::optional<ApiError> CheckModel(const Fields& fields, const ModelCard& card);

// Fills all that does not differ between the two endpoints. Requires: the fields passed CheckFields.
std::optional<ApiError> ReadGenerationFields(const Fields& fields, const HttpRequest& request, const ModelCard& card,
                                             GenerationRequest& out);

// How many tokens were asked for: max_completion_tokens, else max_tokens, else nothing.
std::optional<std::int32_t> WantedTokens(const Fields& fields);

// The error when min_tokens is more than `max_tokens`.
std::optional<ApiError> CheckMinTokens(std::int32_t min_tokens, std::optional<std::int32_t> max_tokens);

}  // namespace skein::server
