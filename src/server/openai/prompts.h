// SPDX-License-Identifier: Apache-2.0
//
// Prompts as /v1/completions and /v1/embeddings take them (text, token ids, or a list of either), checked and
// tokenised; and how much of the context they leave. Lists are counted before anything of them is copied.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "server/openai/api_error.h"
#include "server/openai/generation_request.h"
#include "server/openai/model_card.h"

namespace skein::server {

struct PromptRules {
  std::string_view field;     // "prompt", "input": what errors name
  bool add_special = true;    // text begins with the tokens that the model wants there
  bool parse_special = true;  // special tokens written in text become their ids
  bool decode_ids = false;    // give the text of prompts that came as ids
};

// How many prompts a value is, by its shape alone; what is wrong deeper inside is ReadPrompts' work.
ApiResult<std::size_t> CountPrompts(const boost::json::value& value, std::string_view field);

// Errors: 400 for a mixed, empty or too long list, an id outside the vocabulary, an empty prompt, one that is longer
// than the context.
ApiResult<std::vector<PromptTokens>> ReadPrompts(const boost::json::value& value, const PromptRules& rules,
                                                 const ModelCard& card);

// Ids of the vocabulary. `field` is what errors name.
ApiResult<std::vector<TokenId>> ReadTokenIds(const boost::json::array& ids, std::string_view field,
                                             const ModelCard& card);

// Sets prompt.max_tokens: `wanted`, or all that is left, but no more than what is left of the context. An error names
// both numbers and has the code context_length_exceeded; with `wanted` 0 a prompt may fill the context.
std::optional<ApiError> LimitToContext(PromptTokens& prompt, std::optional<std::int32_t> wanted, std::string_view field,
                                       const ModelCard& card);

}  // namespace skein::server
