// SPDX-License-Identifier: Apache-2.0
//
// For tests only: a byte-level tokenizer.json made from a few merges, so that a test shows all that its tokenizer
// knows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "formats/tokenizer_json.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace skein::text {

// The letter that stands for a byte in byte-level pieces.
inline std::string LetterOfByte(unsigned byte) {
  char32_t next = 0x100;
  std::string letter;
  for (unsigned other = 0; other < 256; ++other) {
    const bool plain = (other >= 0x21 && other <= 0x7E) || (other >= 0xA1 && other <= 0xAC) || other >= 0xAE;
    const char32_t code_point = plain ? other : next++;
    if (other == byte) AppendUtf8(code_point, letter);
  }
  return letter;
}

struct TinyTokenizer {
  std::vector<std::pair<std::string, std::string>> merges;
  std::string added = R"({"id": 400, "content": "<|end|>", "special": true, "normalized": false},
                         {"id": 401, "content": "<think>", "special": false, "normalized": false})";
  std::string pre_tokenizer = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})";
  std::string normalizer = "null";
  std::string post_processor = "null";

  // Ids 0 to 255 are the bytes, the merges' results follow.
  std::string Json() const {
    const auto quoted = [](const std::string& text) { return text == "\"" || text == "\\" ? "\"\\" + text + "\"" : '"' + text + '"'; };
    std::string vocabulary, pairs;
    int id = 0;
    for (unsigned byte = 0; byte < 256; ++byte) vocabulary += fmt::format("{}{}: {}", id ? "," : "", quoted(LetterOfByte(byte)), id), ++id;
    for (const auto& [left, right] : merges) {
      vocabulary += fmt::format(",{}: {}", quoted(left + right), id++);
      pairs += fmt::format("{}[{}, {}]", pairs.empty() ? "" : ",", quoted(left), quoted(right));
    }
    return fmt::format(R"({{"added_tokens": [{}], "normalizer": {}, "pre_tokenizer": {}, "post_processor": {},
      "decoder": {{"type": "ByteLevel"}}, "model": {{"type": "BPE", "vocab": {{{}}}, "merges": [{}]}}}})",
                       added, normalizer, pre_tokenizer, post_processor, vocabulary, pairs);
  }

  std::unique_ptr<Tokenizer> Make() const {
    Result<formats::TokenizerData> data = formats::ReadTokenizerJson(Json(), "");
    if (!data.ok()) {
      ADD_FAILURE() << data.status().message();
      return nullptr;
    }
    Result<std::unique_ptr<Tokenizer>> made = Tokenizer::Create(*data);
    if (!made.ok()) {
      ADD_FAILURE() << made.status().message();
      return nullptr;
    }
    return std::move(made).value();
  }
};

}  // namespace skein::text
