// SPDX-License-Identifier: Apache-2.0
//
// ParseEmbedding reads the body of POST /v1/embeddings. Call it on the text pool, like ParseChat.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "server/http/http_request.h"
#include "server/openai/api_error.h"
#include "server/openai/model_card.h"

namespace skein::server {

struct EmbeddingRequest {
  std::string model;
  std::vector<std::vector<TokenId>> inputs;  // none is empty, none is longer than the context
  bool base64 = false;                       // encoding_format; else numbers
  std::string user;
};

ApiResult<EmbeddingRequest> ParseEmbedding(const HttpRequest& request, const ModelCard& card);

}  // namespace skein::server
