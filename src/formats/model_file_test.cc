// SPDX-License-Identifier: Apache-2.0
//
// Models on disk as a whole: both kinds of file, settings that are wrong one at a time, and paths that are no model.
#include "formats/model_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

#include "formats/test_files.h"
#include "formats/tokenizer_file.h"

namespace skein::formats {
namespace {

using testing::Raw;
using testing::RawGguf;
using testing::TemporaryFolder;
using testing::TinyGguf;
using testing::TinyHf;

void ExpectRefused(const std::string& path, std::string_view word, Code code = Code::kInvalidFile) {
  const auto opened = ModelFile::Open(path);
  ASSERT_FALSE(opened.ok()) << word;
  EXPECT_EQ(opened.status().code(), code) << opened.status().message();
  std::string told = opened.status().message() + " " + opened.status().field();
  if (const std::size_t at = told.find(path); at != std::string::npos) told.erase(at, path.size());  // names no field
  EXPECT_NE(told.find(word), std::string::npos) << opened.status().message() << " does not name " << word;
}

void ExpectGgufRefused(std::string_view word, const std::function<void(RawGguf&)>& change) {
  TemporaryFolder folder;
  RawGguf file = TinyGguf();
  change(file);
  ExpectRefused(folder.Write("broken.gguf", file.Bytes()), word);
}

void ExpectHfRefused(std::string_view word, const std::function<void(TinyHf&)>& change) {
  TemporaryFolder folder;
  TinyHf model;
  change(model);
  model.Write(folder / "broken");
  ExpectRefused(folder / "broken", word);
}

TEST(ModelFile, OpensAGgufFile) {  // The commonest way to use the program.
  TemporaryFolder folder;
  const auto opened = ModelFile::Open(folder.Write("tiny.gguf", TinyGguf().Bytes()));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const ModelConfig& config = (*opened)->config();
  EXPECT_EQ(config.name, "tiny");
  EXPECT_EQ(config.layers, 1);
  EXPECT_EQ(config.hidden, 64);
  EXPECT_EQ(config.heads, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.vocabulary, 300);
  EXPECT_TRUE(config.interleaved_rope_rows);
  EXPECT_FALSE(config.tied_embedding);
  EXPECT_EQ(config.bos, 0);
  EXPECT_EQ(config.eos, std::vector<TokenId>{0});
  EXPECT_EQ((*opened)->tokenizer().pieces.size(), 300u);
  EXPECT_EQ((*opened)->chat_template(), "{{ messages }}");
  const TensorInfo* query = (*opened)->Find("layers.0.q");
  ASSERT_NE(query, nullptr);
  EXPECT_EQ(query->file_name, "blk.0.attn_q.weight");
  EXPECT_EQ(query->shape, (std::vector<std::uint64_t>{64, 64}));
  EXPECT_EQ(query->dtype, DType::kQ4_0);
  EXPECT_EQ((*opened)->Find("layers.1.q"), nullptr);
  std::vector<std::byte> bytes(query->bytes);
  ASSERT_TRUE((*opened)->Read(*query, 0, bytes).ok());
  EXPECT_EQ(bytes[3], std::byte((3 + query->bytes) % 60));
}

TEST(ModelFile, ReadsSpecialSettingsOfGguf) {  // Each changes every number that the model computes.
  TemporaryFolder folder;
  RawGguf file = TinyGguf();
  file.RemoveTensor("output.weight");
  file.Set("llama.rope.scaling.type", "yarn");
  file.Set("llama.rope.scaling.factor", 4.0f);
  file.Set("llama.rope.scaling.original_context_length", 64u);
  file.Set("tokenizer.ggml.eot_token_id", 5u);
  file.tensors.push_back({"rope_freqs.weight", {8}, 0, 0});
  file.tensors.back().bytes = 32;
  for (const char* name : {"blk.0.attn_q.bias", "blk.0.attn_output.bias"}) file.tensors.push_back({name, {64}, 0, 256});
  for (const char* name : {"blk.0.attn_k.bias", "blk.0.attn_v.bias"}) file.tensors.push_back({name, {32}, 0, 128});
  const auto opened = ModelFile::Open(folder.Write("tiny.gguf", file.Bytes()));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const ModelConfig& config = (*opened)->config();
  EXPECT_TRUE(config.tied_embedding);
  EXPECT_TRUE(config.attention_bias);
  EXPECT_FALSE(config.mlp_bias);
  EXPECT_EQ(config.rope.scaling, RopeScaling::kYarn);
  EXPECT_EQ(config.rope.factor, 4);
  EXPECT_EQ(config.rope.original_context, 64);
  EXPECT_EQ(config.rope.frequency_divisors.size(), 8u);
  EXPECT_EQ(config.eos, (std::vector<TokenId>{0, 5}));
  EXPECT_NE((*opened)->Find("layers.0.o_bias"), nullptr);
  EXPECT_EQ((*opened)->Find("head"), nullptr);
}

TEST(ModelFile, RefusesWrongSettingsOfGguf) {  // Numbers would be computed that are not the model's.
  const auto number = [](const std::string& key, std::uint32_t value) {
    ExpectGgufRefused(key.substr(key.rfind('.') + 1), [&](RawGguf& f) { f.Set(key, value); });
  };
  number("llama.block_count", 0);
  number("llama.block_count", ~0u);
  ExpectGgufRefused("blk.1.", [](RawGguf& f) { f.Set("llama.block_count", 2u); });
  ExpectGgufRefused("blk.1.", [](RawGguf& f) { f.Set("llama.block_count", 1u << 14); });
  for (const std::uint32_t value : {0u, 63u, 128u, ~0u}) number("llama.embedding_length", value);
  for (const std::uint32_t value : {0u, 3u, ~0u}) number("llama.attention.head_count", value);
  for (const std::uint32_t value : {3u, 8u, ~0u}) number("llama.attention.head_count_kv", value);
  ExpectGgufRefused("ffn_gate", [](RawGguf& f) { f.Set("llama.feed_forward_length", 97u); });
  for (const std::uint32_t value : {15u, 8u, 1000u}) number("llama.rope.dimension_count", value);
  number("llama.context_length", 0);
  for (const std::uint32_t value : {299u, 301u, ~0u}) number("llama.vocab_size", value);
  number("llama.expert_count", 4);
  number("llama.attention.sliding_window", 16);
  number("tokenizer.ggml.eos_token_id", 300);
  number("tokenizer.ggml.bos_token_id", 1u << 31);
  const auto real = [](const std::string& key, float value) {
    ExpectGgufRefused(key, [&](RawGguf& f) { f.Set(key, value); });
  };
  for (const float value : {std::nanf(""), INFINITY, -1.0f, 0.0f}) {
    real("llama.rope.freq_base", value);
    real("llama.attention.layer_norm_rms_epsilon", value);
  }
  real("llama.attn_logit_softcapping", 30);
  real("llama.logit_scale", 8);
  const auto text = [](const std::string& key, std::string_view value, std::string_view word) {
    ExpectGgufRefused(word, [&](RawGguf& f) { f.Set(key, value); });
  };
  text("general.architecture", "marsupial", "marsupial");
  text("general.architecture", "marsupial", "architecture");
  text("llama.block_count", "many", "block_count");
  text("llama.rope.scaling.type", "elastic", "rope.scaling.type");
  for (const char* key : {"general.architecture", "llama.block_count", "llama.attention.head_count",
                          "llama.attention.layer_norm_rms_epsilon", "tokenizer.ggml.tokens"}) {
    ExpectGgufRefused(key, [&](RawGguf& f) { f.Remove(key); });
  }
}

TEST(ModelFile, RefusesWrongTensorsOfGguf) {  // A missing or misshapen weight would be read as another.
  for (const char* name : {"token_embd.weight", "output_norm.weight", "blk.0.attn_q.weight", "blk.0.ffn_down.weight"}) {
    ExpectGgufRefused(name, [&](RawGguf& f) { f.RemoveTensor(name); });
  }
  ExpectGgufRefused("attn_q", [](RawGguf& f) { f.At("blk.0.attn_q.weight").dimensions = {32, 128}; });
  ExpectGgufRefused("attn_q", [](RawGguf& f) { f.At("blk.0.attn_q.weight").dimensions = {64 * 64}; });
  ExpectGgufRefused("output_norm", [](RawGguf& f) { f.At("output_norm.weight").dimensions = {63}; });
  ExpectGgufRefused("token_embd", [](RawGguf& f) { f.At("token_embd.weight").dimensions = {64, 293}; });
  ExpectGgufRefused("attn_q_norm", [](RawGguf& f) { f.tensors.push_back({"blk.0.attn_q_norm.weight", {16}, 0, 64}); });
  ExpectGgufRefused("attn_k.bias", [](RawGguf& f) { f.tensors.push_back({"blk.0.attn_q.bias", {64}, 0, 256}); });
  ExpectGgufRefused("blk.3.", [](RawGguf& f) { f.tensors.push_back({"blk.3.attn_norm.weight", {64}, 0, 256}); });
  TemporaryFolder folder;
  RawGguf file = TinyGguf();
  file.tensors.push_back({"notes.of.somebody", {7}, 0, 28});  // nobody's business
  EXPECT_TRUE(ModelFile::Open(folder.Write("more.gguf", file.Bytes())).ok());
}

RawGguf PartOf(const RawGguf& whole, std::uint16_t number, std::uint16_t count) {
  RawGguf part;
  if (number == 0) part.keys = whole.keys;
  part.Set("split.no", GgufType::kUint16, Raw(number));
  part.Set("split.count", GgufType::kUint16, Raw(count));
  part.Set("split.tensors.count", GgufType::kInt32, Raw(static_cast<std::int32_t>(whole.tensors.size())));
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
    if (i * count / whole.tensors.size() == number) part.tensors.push_back(whole.tensors[i]);
  }
  return part;
}

TEST(ModelFile, AnyPartOpensASplitFile) {  // Large models come in parts, and a user names whichever.
  TemporaryFolder folder;
  const RawGguf whole = TinyGguf();
  std::vector<std::string> paths;
  for (std::uint16_t i = 0; i < 3; ++i) {
    paths.push_back(folder.Write(fmt::format("m-{:05}-of-00003.gguf", i + 1), PartOf(whole, i, 3).Bytes()));
  }
  for (const std::string& path : paths) {
    const auto opened = ModelFile::Open(path);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    for (const TensorInfo& tensor : (*opened)->tensors()) {
      std::vector<std::byte> bytes(tensor.bytes);
      ASSERT_TRUE((*opened)->Read(tensor, 0, bytes).ok());
      EXPECT_EQ(bytes[1], std::byte((1 + tensor.bytes) % 60)) << tensor.name;
    }
  }
  EXPECT_TRUE(ModelFile::Open(folder.path()).ok());  // the folder has one model
  folder.Write("m-00002-of-00003.gguf", PartOf(whole, 0, 3).Bytes());
  ExpectRefused(paths[0], "split.no");
  std::filesystem::remove(paths[1]);
  ExpectRefused(paths[0], "part 2");
  ExpectRefused(folder.Write("renamed.gguf", PartOf(whole, 0, 3).Bytes()), "split.count");
}

TEST(ModelFile, OpensAHuggingFaceFolder) {
  TemporaryFolder folder;
  TinyHf model;
  model.Set("rope_scaling", R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                               "original_max_position_embeddings": 64})");
  model.Set("eos_token_id", "[1, 2]");
  model.Write(folder / "tiny");
  folder.Write("tiny/generation_config.json", R"({"eos_token_id": 3})");
  folder.Write("tiny/tokenizer_config.json", R"({"chat_template": [{"name": "tools", "template": "A"},
                                                {"name": "default", "template": "B"}]})");
  const auto opened = ModelFile::Open(folder / "tiny/");
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const ModelConfig& config = (*opened)->config();
  EXPECT_EQ(config.name, "tiny");
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_FALSE(config.interleaved_rope_rows);
  EXPECT_EQ(config.rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(config.rope.original_context, 64);
  EXPECT_EQ(config.eos, (std::vector<TokenId>{3, 1, 2}));
  EXPECT_EQ(config.weight_format, "BF16");
  EXPECT_EQ((*opened)->chat_template(), "B");
  EXPECT_EQ((*opened)->Find("layers.0.down")->shape, (std::vector<std::uint64_t>{64, 96}));
  folder.Write("tiny/chat_template.jinja", "C");
  EXPECT_EQ(ModelFile::Open(folder / "tiny").value()->chat_template(), "C");
}

TEST(ModelFile, RefusesWrongConfigs) {  // "An engine should honour or refuse each, never ignore it."
  const auto set = [](const std::string& key, const std::string& json, std::string_view word = "") {
    ExpectHfRefused(word.empty() ? std::string_view(key) : word, [&](TinyHf& m) { m.Set(key, json); });
  };
  for (const char* value : {"0", "-64", "\"64\"", "64.5", "null", "1099511627776", "[64]"}) set("hidden_size", value);
  set("hidden_size", "63", "embed_tokens");
  for (const char* value : {"0", "-1", "\"one\"", "1073741824", "1.5"}) set("num_hidden_layers", value);
  set("num_hidden_layers", "2", "layers.1.");
  for (const char* value : {"0", "3", "-4"}) set("num_attention_heads", value);
  for (const char* value : {"3", "8", "-2", "\"2\""}) set("num_key_value_heads", value);
  for (const char* value : {"0", "-16", "15"}) set("head_dim", value);
  for (const char* value : {"0", "-1", "\"300\"", "1099511627776"}) set("vocab_size", value);
  set("vocab_size", "301", "embed_tokens");
  for (const char* value : {"-1", "0", "\"small\""}) set("rms_norm_eps", value);
  for (const char* value : {"0", "-10000.0", "\"10000\""}) set("rope_theta", value);
  for (const char* value : {"0", "-1"}) set("max_position_embeddings", value);
  for (const char* value : {"\"gelu\"", "5"}) set("hidden_act", value);
  for (const char* value : {"5", R"({"rope_type": "elastic", "factor": 2.0})", R"({"rope_type": "linear"})",
                            R"({"type": "linear", "factor": -2.0})", R"({"type": "dynamic", "factor": 2.0})",
                            R"({"rope_type": "yarn", "factor": 2.0, "mscale": 0.7})"}) {
    set("rope_scaling", value);
  }
  set("model_type", "\"marsupial\"", "architecture");
  set("model_type", "\"mistral\"", "architecture");
  set("model_type", "5");
  for (const char* value : {"300", "-5", "\"two\"", "[1, 300]"}) set("eos_token_id", value);
  set("sliding_window", "16");
  set("partial_rotary_factor", "0.5");
  set("quantization_config", R"({"bits": 4})");
  set("attn_logit_softcapping", "50.0");
  set("attention_bias", "true", "q_proj.bias");
  set("mlp_bias", "1");
  set("architectures", R"(["LlamaForSequenceClassification"])");
  for (const char* key :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"}) {
    ExpectHfRefused(key, [&](TinyHf& m) { m.Remove(key); });
  }
  ExpectHfRefused("model_type", [](TinyHf& m) {
    m.Remove("model_type");
    m.Remove("architectures");
  });
  ExpectHfRefused("lm_head", [](TinyHf& m) { m.RemoveTensor("lm_head.weight"); });
  ExpectHfRefused("q_proj.weight_scale",
                  [](TinyHf& m) { m.shapes.emplace_back("model.layers.0.self_attn.q_proj.weight_scale", "64"); });
}

TEST(ModelFile, RefusesWrongFilesOfAFolder) {
  TemporaryFolder folder;
  TinyHf().Write(folder / "m");
  ASSERT_TRUE(ModelFile::Open(folder / "m").ok());
  const auto with = [&](std::string_view name, const std::string& bytes, std::string_view word) {
    std::filesystem::remove_all(folder / "m");
    TinyHf().Write(folder / "m");
    folder.Write(std::string("m/") + std::string(name), bytes);
    ExpectRefused(folder / "m", word);
  };
  for (const char* text : {"", "[]", "{hidden_size: 64}", "{\"model_type\": \"ll\xff\"}", "{\"a\": NaN}",
                           R"({"model_type": "llama", "model_type": "llama"})"}) {
    with("config.json", text,
         text[0] != '\0' && std::string_view(text).find("llama") != std::string_view::npos ? "duplicate"
                                                                                           : "config.json");
  }
  with("config.json", "{\"x\": " + std::string(50'000, '[') + std::string(50'000, ']') + "}", "config.json");
  with("tokenizer.json", "{", "tokenizer.json");
  with("model.safetensors", "", "header");
  std::filesystem::remove(folder / "m/model.safetensors");
  ExpectRefused(folder / "m", "model.safetensors");
  std::filesystem::remove(folder / "m/tokenizer.json");
  TinyHf().Write(folder / "n");
  std::filesystem::remove(folder / "n/tokenizer.json");
  ExpectRefused(folder / "n", "tokenizer.json");
}

TEST(ModelFile, ReadsShardsOfTheFolderOnly) {  // A downloaded index must not open files elsewhere.
  TemporaryFolder folder;
  const TinyHf model;
  const auto write = [&](const std::string& shard_of_query) {
    model.Write(folder / "m");
    std::filesystem::remove(folder / "m/model.safetensors");
    std::vector<std::pair<std::string, std::string>> first(model.shapes.begin(), model.shapes.begin() + 6);
    std::vector<std::pair<std::string, std::string>> second(model.shapes.begin() + 6, model.shapes.end());
    folder.Write("m/a.safetensors", TinyHf::Safetensors(first));
    folder.Write("m/b.safetensors", TinyHf::Safetensors(second));
    std::string map;
    for (const auto& [name, shape] : first) {
      const bool query = name.ends_with("q_proj.weight");
      map += fmt::format("\"{}\": {}, ", name, query ? shard_of_query : "\"a.safetensors\"");
    }
    for (const auto& [name, shape] : second) map += fmt::format("\"{}\": \"b.safetensors\", ", name);
    folder.Write("m/model.safetensors.index.json", "{\"weight_map\": {" + map.substr(0, map.size() - 2) + "}}");
  };
  write("\"a.safetensors\"");
  const auto opened = ModelFile::Open(folder / "m");
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ((*opened)->Find("layers.0.q")->file, 0);
  EXPECT_EQ((*opened)->Find("head")->file, 1);
  write("\"b.safetensors\"");
  ExpectRefused(folder / "m", "q_proj");
  write("\"c.safetensors\"");
  ExpectRefused(folder / "m", "c.safetensors");
  for (const char* shard : {"\"../m/a.safetensors\"", "\"/etc/passwd\"", "5", "\"\""}) {
    write(shard);
    ExpectRefused(folder / "m", "weight_map");
  }
}

TEST(ModelFile, RefusesWhatIsNoModel) {  // A wrong argument must not hang, and say what it is.
  TemporaryFolder folder;
  ExpectRefused(folder / "nothing.gguf", "nothing found", Code::kInvalidArgument);
  ExpectRefused("", "nothing found", Code::kInvalidArgument);
  ExpectRefused(folder.Write("text.gguf", "once upon a time"), "magic");
  ExpectRefused(folder.Write("empty.gguf", ""), "magic");
  ASSERT_EQ(::mkfifo((folder / "pipe.gguf").c_str(), 0600), 0);
  ExpectRefused(folder / "pipe.gguf", "regular file");
  ExpectRefused("/dev/zero", "regular file");
  std::filesystem::create_directory(folder / "empty");
  ExpectRefused(folder / "empty", "config.json");
  const std::string one = folder.Write("empty/one.gguf", TinyGguf().Bytes());
  EXPECT_TRUE(ModelFile::Open(folder / "empty").ok());
  folder.Write("empty/two.gguf", TinyGguf().Bytes());
  ExpectRefused(folder / "empty", "more than one");
}

TEST(ModelFile, AFileThatShrinksIsAnError) {  // A download restarted over a loaded model must not kill the server.
  TemporaryFolder folder;
  const std::string path = folder.Write("tiny.gguf", TinyGguf().Bytes());
  const auto opened = ModelFile::Open(path);
  ASSERT_TRUE(opened.ok());
  ASSERT_EQ(::truncate(path.c_str(), 4096), 0);
  const TensorInfo* head = (*opened)->Find("head");
  std::vector<std::byte> bytes(head->bytes);
  const Status read = (*opened)->Read(*head, 0, bytes);
  EXPECT_EQ(read.code(), Code::kInvalidFile);
  EXPECT_NE(read.message().find("file ends"), std::string::npos);
  EXPECT_EQ(read.field(), "output.weight");
}

TEST(OpenTokenizer, TakesWhateverHoldsOne) {  // `tokenize` is used without weights at hand.
  TemporaryFolder folder;
  TinyHf().Write(folder / "m");
  RawGguf file = TinyGguf();
  file.tensors.clear();
  for (const std::string& path :
       {folder / "m", folder / "m/tokenizer.json", folder.Write("vocab.gguf", file.Bytes())}) {
    const Result<TokenizerFile> opened = OpenTokenizer(path);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_EQ(opened->data.pieces.size(), 300u);
    EXPECT_EQ(opened->chat_template.empty(), !path.ends_with(".gguf"));
  }
  EXPECT_EQ(OpenTokenizer(folder / "nothing").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(OpenTokenizer("/dev/zero").status().code(), Code::kInvalidFile);
  EXPECT_EQ(OpenTokenizer(folder.Write("text.txt", "abc")).status().code(), Code::kInvalidFile);
}

TEST(ModelFile, OpensTheOraclesLlamas) {  // Files of other programs, not of our own making.
  const char* source = std::getenv("SKEIN_SOURCE_DIR");
  const std::string oracle = std::string(source == nullptr ? "." : source) + "/../shared/oracle/models/";
  if (!std::filesystem::exists(oracle)) GTEST_SKIP() << "no oracle";
  for (const char* name :
       {"llama-smol", "llama-plain", "llama-rope-llama3", "llama-rope-linear", "llama-rope-yarn", "llama-bias",
        "gguf/llama-smol-BF16.gguf", "gguf/llama-rope-llama3-BF16.gguf", "gguf/llama-256-F32.gguf",
        "gguf/llama-256-Q4_1.gguf", "gguf/llama-256-Q8_0.gguf", "gguf/llama-256-split-00002-of-00002.gguf"}) {
    const auto opened = ModelFile::Open(oracle + name);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    for (const TensorInfo& tensor : (*opened)->tensors()) {
      std::vector<std::byte> bytes(tensor.bytes);
      EXPECT_TRUE((*opened)->Read(tensor, 0, bytes).ok()) << tensor.name;
    }
  }
  EXPECT_EQ(ModelFile::Open(oracle + "llama-rope-llama3").value()->config().rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(
      ModelFile::Open(oracle + "gguf/llama-rope-llama3-BF16.gguf").value()->config().rope.frequency_divisors.size(),
      16u);
  ExpectRefused(oracle + "mixtral", "architecture");
  ExpectRefused(oracle + "gguf/mixtral-BF16.gguf", "expert_count");
  ExpectRefused(oracle + "mistral-window", "architecture");
}

}  // namespace
}  // namespace skein::formats
