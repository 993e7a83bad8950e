// SPDX-License-Identifier: Apache-2.0
//
// ReadTokenizerGguf takes the tokenizer out of a GGUF file's tokenizer.ggml.* keys and checks it. Used when a model
// is loaded; any thread.
#pragma once

#include "base/status.h"
#include "formats/gguf.h"
#include "formats/tokenizer_data.h"

namespace skein::formats {

// kInvalidFile that names the key when a key is missing, of another type or out of range.
Result<TokenizerData> ReadTokenizerGguf(const Gguf& gguf);

}  // namespace skein::formats
