// SPDX-License-Identifier: Apache-2.0
//
// POST /tokenize and POST /detokenize, whole: the functions give the body of the answer. Call them on the text pool,
// like ParseChat.
#pragma once

#include <string>

#include "server/http/http_request.h"
#include "server/openai/api_error.h"
#include "server/openai/model_card.h"

namespace skein::server {

// {"count": 3, "max_model_len": 8192, "tokens": [1, 2, 3]}, with "token_strs" when they were asked for.
ApiResult<std::string> Tokenize(const HttpRequest& request, const ModelCard& card);

// {"prompt": "the text"}.
ApiResult<std::string> Detokenize(const HttpRequest& request, const ModelCard& card);

}  // namespace skein::server
