// SPDX-License-Identifier: Apache-2.0
//
// From a rendered conversation to ids: special tokens are found only in what the template wrote. For everything that
// prompts a model through its chat template: the API, the library, the command line.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace skein::text {

// Ids of the first `bytes` of the prompt, or of all of it. Templates write the begin token themselves where the model
// wants one, so `add_special` is mostly false.
std::vector<TokenId> EncodeRendered(const Tokenizer& tokenizer, const RenderedPrompt& prompt, bool add_special,
                                    std::size_t bytes = std::string::npos);

// This machine's time as RenderInput::now has it.
std::string LocalTime();

}  // namespace skein::text
