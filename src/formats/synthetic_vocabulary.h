// SPDX-License-Identifier: Apache-2.0
//
// A byte-level BPE vocabulary of any size without a training text, for models that are made and not trained: the end
// token, the 256 bytes, then lower-case words that grow letter by letter (with and without a space before them).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace skein::formats {

struct SyntheticVocabulary {
  std::vector<std::string> tokens;        // id 0 begins and ends texts, in the printable letters of byte-level BPE
  std::vector<std::int32_t> token_types;  // as tokenizer.ggml.token_type has them
  std::vector<std::string> merges;        // "left right", by rank
};

// Requires: 257 <= size <= 400000.
SyntheticVocabulary MakeVocabulary(int size);

}  // namespace skein::formats
