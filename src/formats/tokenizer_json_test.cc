// SPDX-License-Identifier: Apache-2.0
#include "formats/tokenizer_json.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

namespace skein::formats {
namespace {

constexpr char kWhole[] = R"({
  "version": "1.0",
  "added_tokens": [{"id": 5, "content": "<|end|>", "special": true, "lstrip": true, "rstrip": false, "normalized": false, "single_word": false}],
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]},
  "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "unk_token": null, "ignore_merges": true, "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3}, "merges": ["a b"]}
})";

std::string With(std::string_view from, std::string_view to) {
  std::string text = kWhole;
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

TEST(TokenizerJson, ReadsAllParts) {
  // Folders from the Hub would be read with other tokens than their model knows.
  const Result<TokenizerData> data =
      ReadTokenizerJson(kWhole, R"({"eos_token": {"content": "<|end|>"}, "bos_token": null})");
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->pre_tokenizer, "smollm");
  EXPECT_EQ(data->pieces, (std::vector<std::string>{"a", "b", "ab", "Ġ", "", "<|end|>"}));
  ASSERT_EQ(data->merges.size(), 1u);
  EXPECT_EQ(data->merges[0].result, 2);
  ASSERT_EQ(data->added.size(), 1u);
  EXPECT_TRUE(data->added[0].special && data->added[0].left_strip && !data->added[0].right_strip);
  EXPECT_TRUE(data->nfc && data->ignore_merges && data->add_bos && !data->add_eos);
  EXPECT_EQ(data->bos, 5);
  EXPECT_EQ(data->eos, 5);
}

TEST(TokenizerJson, MergesMayBePairs) {
  // Folders written by newer libraries could not be read.
  const Result<TokenizerData> data = ReadTokenizerJson(With(R"("a b")", R"(["a", "b"])"), "");
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->merges.size(), 1u);
}

TEST(TokenizerJson, WhatIsNotKnownIsAnErrorThatNamesThePart) {
  // A tokenizer that is nearly right makes a model that is quietly worse.
  const std::pair<std::string, std::string> cases[] = {
      {"{", "tokenizer.json"},
      {"[]", "tokenizer.json"},
      {"{\"model\": " + std::string(5000, '[') + std::string(5000, ']') + "}", "tokenizer.json"},
      {With(R"("BPE")", R"("Unigram")"), "model.type"},
      {With(R"("a": 0)", R"("a": -1)"), "vocab"},
      {With(R"("a": 0)", R"("a": 2147483648)"), "vocab"},
      {With(R"("a": 0)", R"("a": 99999999)"), "vocab"},
      {With(R"("a": 0)", R"("a": 1)"), "vocab"},
      {With(R"(["a b"])", "5"), "merges"},
      {With(R"(["a b"])", R"(["ab"])"), "merges"},
      {With(R"(["a b"])", R"(["b a"])"), "merges"},
      {With(R"(["a b"])", R"([["a", "x"]])"), "merges"},
      {With(R"("NFC")", R"("NFKC")"), "normalizer"},
      {With(R"("Digits")", R"("Abacus")"), "pre_tokenizer"},
      {With(R"("individual_digits": true)", R"("individual_digits": false)"), "pre_tokenizer"},
      {With(R"("add_prefix_space": false)", R"("add_prefix_space": true)"), "pre_tokenizer"},
      {With(R"({"type": "ByteLevel"})", R"({"type": "WordPiece"})"), "decoder"},
      {With(R"("TemplateProcessing")", R"("BertProcessing")"), "post_processor"},
      {With(R"("id": 5)", R"("id": 1)"), "added_tokens"},
      {With(R"("id": 5)", R"("id": "5")"), "added_tokens"},
      {With(R"("lstrip": true)", R"("lstrip": 1)"), "lstrip"},
  };
  for (const auto& [text, part] : cases) {
    const Result<TokenizerData> data = ReadTokenizerJson(text, "");
    ASSERT_FALSE(data.ok()) << part << ": " << text.substr(0, 200);
    EXPECT_EQ(data.status().code(), Code::kInvalidFile);
    EXPECT_NE(data.status().message().find(part), std::string::npos) << data.status().message();
    EXPECT_EQ(data.status().message().find('\n'), std::string::npos);
  }
  EXPECT_FALSE(ReadTokenizerJson(kWhole, R"({"eos_token": "<none>"})").ok());
  EXPECT_FALSE(ReadTokenizerJson(kWhole, "no json").ok());
}

}  // namespace
}  // namespace skein::formats
