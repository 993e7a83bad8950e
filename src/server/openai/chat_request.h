// SPDX-License-Identifier: Apache-2.0
//
// ParseChat reads the body of POST /v1/chat/completions: checks every field, renders the messages with the model's
// template and tokenises them so that control tokens come from the template only.
//
// It may take long (a template runs for up to half a second, a prompt of megabytes is tokenised): call it on the text
// pool. Any number of threads may call it at once.
#pragma once

#include "server/http/http_request.h"
#include "server/openai/api_error.h"
#include "server/openai/generation_request.h"
#include "server/openai/model_card.h"

namespace skein::server {

ApiResult<GenerationRequest> ParseChat(const HttpRequest& request, const ModelCard& card);

}  // namespace skein::server
