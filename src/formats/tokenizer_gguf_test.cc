// SPDX-License-Identifier: Apache-2.0
#include "formats/tokenizer_gguf.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace skein::formats {
namespace {

// Writes a GGUF file of metadata only.
class Writer {
 public:
  void Text(const std::string& key, const std::string& text) { Key(key, GgufType::kString), String(text); }
  void Texts(const std::string& key, const std::vector<std::string>& texts) {
    Array(key, GgufType::kString, texts.size());
    for (const std::string& text : texts) String(text);
  }
  void Floats(const std::string& key, const std::vector<float>& values) {
    Array(key, GgufType::kFloat32, values.size());
    for (const float value : values) Raw(value);
  }
  void Ints(const std::string& key, const std::vector<std::int32_t>& values) {
    Array(key, GgufType::kInt32, values.size());
    for (const std::int32_t value : values) Raw(value);
  }
  void Number(const std::string& key, std::uint32_t value) { Key(key, GgufType::kUint32), Raw(value); }

  Result<TokenizerData> Read() const {
    std::string file = "GGUF";
    const auto append = [&file](auto value) { file.append(reinterpret_cast<const char*>(&value), sizeof value); };
    append(std::uint32_t{3}), append(std::uint64_t{0}), append(count_);
    file += body_;
    file.resize((file.size() + 31) / 32 * 32);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> disk(std::tmpfile(), std::fclose);
    EXPECT_EQ(std::fwrite(file.data(), 1, file.size(), disk.get()), file.size());
    std::fflush(disk.get());
    Result<Gguf> gguf = Gguf::Parse(fileno(disk.get()), file.size());
    if (!gguf.ok()) return gguf.status();
    return ReadTokenizerGguf(*gguf);
  }

 private:
  template <typename Value>
  void Raw(Value value) {
    body_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void String(const std::string& text) { Raw(std::uint64_t{text.size()}), body_ += text; }
  void Key(const std::string& key, GgufType type) { ++count_, String(key), Raw(static_cast<std::uint32_t>(type)); }
  void Array(const std::string& key, GgufType type, std::size_t count) {
    Key(key, GgufType::kArray), Raw(static_cast<std::uint32_t>(type)), Raw(std::uint64_t{count});
  }

  std::string body_;
  std::uint64_t count_ = 0;
};

struct Parts {
  std::string model = "gpt2", pre = "smollm";
  std::vector<std::string> tokens = {"a", "b", "ab", "<|end|>", "<think>"};
  std::vector<std::string> merges = {"a b"};
  std::vector<std::int32_t> types = {1, 1, 1, 3, 4};
  std::vector<float> scores;
  std::uint32_t eos = 3;

  Result<TokenizerData> Read() const {
    Writer writer;
    writer.Text("tokenizer.ggml.model", model);
    writer.Text("tokenizer.ggml.pre", pre);
    writer.Texts("tokenizer.ggml.tokens", tokens);
    writer.Texts("tokenizer.ggml.merges", merges);
    writer.Ints("tokenizer.ggml.token_type", types);
    if (!scores.empty()) writer.Floats("tokenizer.ggml.scores", scores);
    writer.Number("tokenizer.ggml.eos_token_id", eos);
    return writer.Read();
  }
};

TEST(TokenizerGguf, ReadsByteLevelBpe) {
  // The default model could not read a prompt.
  const Result<TokenizerData> data = Parts().Read();
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->pre_tokenizer, "smollm");
  ASSERT_EQ(data->merges.size(), 1u);
  EXPECT_EQ(data->merges[0].result, 2);
  ASSERT_EQ(data->added.size(), 2u);
  EXPECT_TRUE(data->added[0].special);
  EXPECT_FALSE(data->added[1].special);
  EXPECT_EQ(data->eos, 3);
  EXPECT_EQ(data->bos, -1);
  EXPECT_FALSE(data->add_bos);
}

TEST(TokenizerGguf, SentencePieceScoresBecomeMerges) {
  // Llama 2 models could not read a prompt.
  Parts parts;
  parts.model = "llama";
  parts.tokens = {"a", "b", "c", "abc", "ab", "bc", "<0x0A>"};
  parts.types = {1, 1, 1, 1, 1, 1, 6};
  parts.scores = {-1, -2, -3, -7, -8, -8, 0};
  const Result<TokenizerData> data = parts.Read();
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->merges.size(), 4u);  // ab, bc, and abc in two ways
  EXPECT_EQ(data->byte_pieces[10], 6);
  EXPECT_EQ(data->byte_pieces[11], -1);
}

TEST(TokenizerGguf, ErrorsNameTheKey) {
  // A broken download would crash the program, or start a model that answers nonsense.
  const std::pair<std::function<void(Parts&)>, std::string> cases[] = {
      {[](Parts& p) { p.model = "abacus"; }, "tokenizer.ggml.model"},
      {[](Parts& p) { p.pre = "abacus"; }, "tokenizer.ggml.pre"},
      {[](Parts& p) { p.tokens.clear(); }, "tokenizer.ggml.tokens"},
      {[](Parts& p) { p.types.pop_back(); }, "tokenizer.ggml.token_type"},
      {[](Parts& p) { p.types[0] = 9; }, "tokenizer.ggml.token_type"},
      {[](Parts& p) {
         p.scores = {1, 2};
       },
       "tokenizer.ggml.scores"},
      {[](Parts& p) { p.merges = {"ab"}; }, "tokenizer.ggml.merges"},
      {[](Parts& p) { p.merges = {"a x"}; }, "tokenizer.ggml.merges"},
      {[](Parts& p) { p.merges = {"b a"}; }, "tokenizer.ggml.merges"},
      {[](Parts& p) { p.merges = {""}; }, "tokenizer.ggml.merges"},
      {[](Parts& p) { p.eos = 5; }, "eos_token_id"},
      {[](Parts& p) { p.eos = 0x80000000u; }, "eos_token_id"},
      {[](Parts& p) {
         p.model = "llama", p.scores = {0, 0, 0, 0, 0}, p.types[0] = 6;
       },
       "tokenizer.ggml.tokens"},
  };
  for (const auto& [change, key] : cases) {
    Parts parts;
    change(parts);
    const Result<TokenizerData> data = parts.Read();
    ASSERT_FALSE(data.ok()) << key;
    EXPECT_EQ(data.status().code(), Code::kInvalidFile);
    EXPECT_NE(data.status().message().find(key), std::string::npos) << data.status().message();
  }
  Parts none;
  none.eos = 0xFFFFFFFFu;  // means: none
  EXPECT_TRUE(none.Read().ok());
}

}  // namespace
}  // namespace skein::formats
