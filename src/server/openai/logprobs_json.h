// SPDX-License-Identifier: Apache-2.0
//
// Log-probabilities as OpenAI's two endpoints write them. Tokens are shown as text; bytes that are no whole characters
// are escaped (\xe2), since JSON holds text only. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/json_writer.h"
#include "server/openai/choice_text.h"
#include "text/tokenizer.h"

namespace skein::server {

// A token as text: " the", or "\xe2\x80" (with backslashes) where its bytes are no whole characters.
std::string TokenAsText(const text::Tokenizer& tokenizer, TokenId token);

// {"content":[{"token","logprob","bytes","top_logprobs":[…]}…],"refusal":null}
void WriteChatLogprobs(const text::Tokenizer& tokenizer, std::span<const TokenEntry> entries, std::int32_t top,
                       JsonWriter& json);

// {"tokens":[…],"token_logprobs":[…],"top_logprobs":[{…}…],"text_offset":[…]}
void WriteCompletionLogprobs(const text::Tokenizer& tokenizer, std::span<const TokenEntry> entries, std::int32_t top,
                             JsonWriter& json);

// [null,{"1234":{"logprob","rank","decoded_token"}…}…]: the prompt's, as vLLM writes them.
void WritePromptLogprobs(const text::Tokenizer& tokenizer, std::span<const TokenEntry> entries, std::int32_t top,
                         JsonWriter& json);

}  // namespace skein::server
