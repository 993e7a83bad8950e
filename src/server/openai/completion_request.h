// SPDX-License-Identifier: Apache-2.0
//
// ParseCompletion reads the body of POST /v1/completions: checks every field and tokenises the prompts. Call it on the
// text pool, like ParseChat.
#pragma once

#include "server/http/http_request.h"
#include "server/openai/api_error.h"
#include "server/openai/generation_request.h"
#include "server/openai/model_card.h"

namespace skein::server {

ApiResult<GenerationRequest> ParseCompletion(const HttpRequest& request, const ModelCard& card);

}  // namespace skein::server
