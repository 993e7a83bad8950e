// SPDX-License-Identifier: Apache-2.0
//
// OpenTokenizer reads only the tokenizer of what stands at a path, for commands that turn text into ids and back. The
// weights need not be there.
#pragma once

#include <string>

#include "base/status.h"
#include "formats/tokenizer_data.h"

namespace skein::formats {

struct TokenizerFile {
  TokenizerData data;
  std::string chat_template;  // empty without one
};

// A bare tokenizer.json, a GGUF file (one with the vocabulary only will do), or a folder with either. Errors as
// ModelFile::Open has them.
Result<TokenizerFile> OpenTokenizer(const std::string& path);

}  // namespace skein::formats
