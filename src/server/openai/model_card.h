// SPDX-License-Identifier: Apache-2.0
//
// ModelCard is what the API knows of the model it serves. Made once by whoever starts the server, then only read, by
// any thread; what its pointers refer to lives as long as the server.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace skein::server {

struct ModelCard {
  std::string id;                    // the name in answers
  std::vector<std::string> aliases;  // further names that requests may use
  std::int64_t created_s = 0;        // seconds since 1970
  const text::Tokenizer* tokenizer = nullptr;
  const text::ChatTemplate* chat_template = nullptr;  // nullptr: the model has none, and no chat is served
  std::vector<TokenId> stop_tokens;                   // the model's own ends of an answer
  std::int32_t context = 0;                           // tokens of prompt and answer together
  std::int32_t vocabulary = 0;                        // ids are from 0 to vocabulary - 1
  std::int32_t embedding_dimensions = 0;              // of /v1/embeddings; 0: not served
  std::string fingerprint;                            // system_fingerprint
  std::string bos, eos;                               // as templates write them, "<|im_end|>"; empty: none

  bool Serves(std::string_view name) const;
};

}  // namespace skein::server
