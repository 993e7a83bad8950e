// SPDX-License-Identifier: Apache-2.0
//
// A conversation becomes a prompt: rendered by the model's chat template, then tokenised so that control tokens come
// from the template only, never from what somebody wrote.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/loaded_model.h"
#include "base/ids.h"
#include "base/status.h"
#include "formats/tokenizer_data.h"
#include "skein/engine.h"

namespace skein::api {

// Errors: kInvalidArgument when the model has no template, or the template refuses the conversation.
Result<std::vector<TokenId>> ConversationTokens(const LoadedModel& loaded, const std::vector<Message>& messages);

// A token as templates write it: "<|im_end|>". Nothing for an id that is not there.
std::optional<std::string> TokenAsWritten(const formats::TokenizerData& data, TokenId id);

}  // namespace skein::api
