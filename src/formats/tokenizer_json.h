// SPDX-License-Identifier: Apache-2.0
//
// ReadTokenizerJson understands the `tokenizer.json` of a Hugging Face folder: byte-level BPE so far. What it does not
// know is an error that names the part, never a guess: a tokenizer that is nearly right makes a model that is quietly
// worse. Used when a model is loaded; any thread.
#pragma once

#include <string>

#include "base/status.h"
#include "formats/tokenizer_data.h"

namespace skein::formats {

// Both arguments are contents of files, `tokenizer_config_json` may be empty. Errors are kInvalidFile and begin with
// the file's name.
Result<TokenizerData> ReadTokenizerJson(const std::string& tokenizer_json, const std::string& tokenizer_config_json);

}  // namespace skein::formats
