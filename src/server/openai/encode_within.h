// SPDX-License-Identifier: Apache-2.0
//
// Tokenising text that may be far longer than the context. Beginnings of growing length come first, and the first that
// is too long ends it: a text of 32 MB in one word would otherwise take more than a gigabyte and seconds, only to be
// refused.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "server/openai/api_error.h"
#include "server/openai/model_card.h"

namespace skein::server {

// The refusal of a prompt that is longer than the context; it names both numbers. `at_least`: there may be more tokens.
ApiError PromptTooLong(std::size_t tokens, bool at_least, std::string_view field, const ModelCard& card);

// Tokens of a text of `bytes`; `encode` gives those of its first so many bytes. Errors: PromptTooLong.
ApiResult<std::vector<TokenId>> EncodeWithin(std::size_t bytes,
                                             const std::function<std::vector<TokenId>(std::size_t)>& encode,
                                             std::string_view field, const ModelCard& card);

}  // namespace skein::server
