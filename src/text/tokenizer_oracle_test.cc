// SPDX-License-Identifier: Apache-2.0
//
// Tokenizers of all kinds against the ids and texts of the reference libraries, where the oracle folder is there.
// Each folder's count is printed.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "formats/tokenizer_file.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace skein::text {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

fs::path OracleFolder() {
  const char* source = std::getenv("SKEIN_SOURCE_DIR");
  return source == nullptr ? fs::path() : fs::path(source) / ".." / "shared" / "oracle" / "tokenizers";
}

std::vector<json::object> ReadLines(const fs::path& path) {
  std::ifstream file(path);
  std::vector<json::object> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line).as_object());
  return lines;
}

std::vector<TokenId> Ids(const json::value& list) {
  std::vector<TokenId> ids;
  for (const json::value& id : list.as_array()) ids.push_back(static_cast<TokenId>(id.as_int64()));
  return ids;
}

std::string Text(const json::object& object, const char* key) {
  const json::string& text = object.at(key).as_string();
  return std::string(text.data(), text.size());
}

bool Flag(const json::object& object, const char* key) {
  const json::value* found = object.if_contains(key);
  return found != nullptr && found->as_bool();
}

std::string Stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip_special) {
  Detokenizer detokenizer(tokenizer, skip_special);
  std::string text;
  for (const TokenId id : ids) {
    const std::string piece = detokenizer.Push(id);
    EXPECT_TRUE(IsValidUtf8(piece));
    text += piece;
  }
  return text + detokenizer.Finish();
}

struct Count {
  int right = 0, all = 0;
  void Add(bool ok, const std::string& what) {
    ++all;
    right += ok;
    if (!ok && all - right <= 5) std::cout << "  wrong: " << what << "\n";
  }
};

std::string Shown(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += std::to_string(id) + " ";
  return text;
}

void RunFolder(const fs::path& folder, const std::string& model, const char* field) {
  Result<formats::TokenizerFile> file = formats::OpenTokenizer(model);
  ASSERT_TRUE(file.ok()) << model << ": " << file.status().message();
  Result<std::unique_ptr<Tokenizer>> made = Tokenizer::Create(file->data);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const Tokenizer& tokenizer = **made;
  Count encode, decode;
  const auto check_decode = [&](const json::object& line) {
    const std::vector<TokenId> ids = Ids(line.at("ids"));
    for (const bool skip : {false, true}) {
      const std::string wanted = Text(line, skip ? "decoded_skip" : "decoded");
      decode.Add(tokenizer.Decode(ids, skip) == wanted, "decode " + Shown(ids));
      decode.Add(Stream(tokenizer, ids, skip) == wanted, "stream " + Shown(ids));
    }
  };
  for (const json::object& line : ReadLines(folder / "cases.jsonl")) {
    if (Flag(line, "informative")) continue;
    const char* wanted_field = line.contains(field) ? field : "ids";
    const std::vector<TokenId> wanted = Ids(line.at(wanted_field));
    const std::vector<TokenId> found = tokenizer.Encode(
        Text(line, "text"), {.add_special = Flag(line, "add_special"), .parse_special = Flag(line, "parse_special")});
    encode.Add(found == wanted, json::serialize(line.at("text")) + "\n    wanted " + Shown(wanted) + "\n    found  " + Shown(found));
    if (std::string_view(field) == "ids" && line.contains("decoded")) check_decode(line);
  }
  for (const json::object& line : ReadLines(folder / "decode.jsonl")) check_decode(line);
  std::cout << folder.filename().string() << " " << fs::path(model).filename().string() << ": encode " << encode.right << "/"
            << encode.all << ", decode " << decode.right << "/" << decode.all << "\n";
  EXPECT_EQ(encode.right, encode.all) << model;
  EXPECT_EQ(decode.right, decode.all) << model;
}

class Oracle : public testing::TestWithParam<const char*> {};

TEST_P(Oracle, FolderAgreesWithTheReference) {
  // A model would see other tokens than it was trained on, and its answers would be quietly worse.
  const fs::path folder = OracleFolder() / GetParam();
  if (!fs::exists(folder / "cases.jsonl")) GTEST_SKIP() << "no oracle folder";
  const bool byte_level = std::string_view(GetParam()).starts_with("bl-");
  // The tokenizer.json of SentencePiece kinds is not read yet.
  if (byte_level) RunFolder(folder, (folder / "tokenizer.json").string(), "ids");
  if (fs::exists(folder / "vocab.gguf")) RunFolder(folder, (folder / "vocab.gguf").string(), "ids_gguf");
}

INSTANTIATE_TEST_SUITE_P(Folders, Oracle,
                         testing::Values("bl-smollm", "bl-gpt2", "bl-llama3", "bl-qwen2", "bl-deepseek3", "bl-falcon",
                                         "bl-added-flags", "spm-llama2", "spm-gemma"));

TEST(OracleModel, TheDefaultModelAgreesWithTheReference) {
  // The model that everyone meets first would read prompts wrongly.
  const char* model = std::getenv("SKEIN_TEST_MODEL");
  const fs::path folder = OracleFolder() / "smollm2";
  if (model == nullptr || !fs::exists(folder / "cases.jsonl")) GTEST_SKIP() << "SKEIN_TEST_MODEL or the oracle is not there";
  RunFolder(folder, model, "ids");
}

}  // namespace
}  // namespace skein::text
