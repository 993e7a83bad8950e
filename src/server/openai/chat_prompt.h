// SPDX-License-Identifier: Apache-2.0
//
// A conversation becomes a prompt: rendered by the model's chat template, then tokenised so that special tokens come
// from the template only, never from what somebody wrote. Used by /v1/chat/completions and /tokenize.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "server/openai/api_error.h"
#include "server/openai/fields.h"
#include "server/openai/model_card.h"

namespace skein::server {

struct ChatPrompt {
  std::vector<TokenId> tokens;
  std::string text;
  bool opens_reasoning = false;  // it ends inside <think>, so the answer begins with reasoning
};

// Reads messages, add_generation_prompt, continue_final_message and chat_template_kwargs, and documents and
// reasoning_effort where the table has them. Requires: the fields passed CheckFields, and messages is there.
// Errors: 400 when the model has no template, when it refuses the conversation or spends more than its budget.
ApiResult<ChatPrompt> RenderChat(const Fields& fields, bool add_special, const ModelCard& card);

}  // namespace skein::server
