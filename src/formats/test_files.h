// SPDX-License-Identifier: Apache-2.0
//
// Small valid files for the tests of this module, as plain values whose every field a test can make wrong: the GGUF
// and safetensors containers, and a whole llama model in both. Nothing here checks anything.
#pragma once

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/gguf.h"
#include "formats/synthetic_vocabulary.h"

namespace skein::formats::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "skein-formats-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }
  std::string Write(std::string_view name, const std::string& bytes) const {
    std::ofstream(*this / name, std::ios::binary) << bytes;
    return *this / name;
  }

 private:
  std::string path_;
};

// `bytes` as a file that has no name, for readers that take a descriptor.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : descriptor_(::memfd_create("skein", MFD_CLOEXEC)) {
    if (::pwrite(descriptor_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

template <typename T>
std::string Raw(T value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

inline std::string RawText(std::string_view text) {
  return Raw(static_cast<std::uint64_t>(text.size())) + std::string(text);
}

struct RawGguf {
  struct Key {
    std::string key;
    std::uint32_t type;
    std::string value;  // encoded
  };
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dimensions;
    std::uint32_t format;
    std::uint64_t bytes;
    std::optional<std::uint64_t> offset = std::nullopt;
    std::optional<std::uint32_t> dimension_count = std::nullopt;
  };
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> tensor_count;
  std::optional<std::uint64_t> key_count;
  std::vector<Key> keys;
  std::vector<Tensor> tensors;

  void Set(const std::string& key, GgufType type, std::string value) {
    for (Key& one : keys) {
      if (one.key == key) {
        one = {key, static_cast<std::uint32_t>(type), std::move(value)};
        return;
      }
    }
    keys.push_back({key, static_cast<std::uint32_t>(type), std::move(value)});
  }
  void Set(const std::string& key, std::uint32_t value) { Set(key, GgufType::kUint32, Raw(value)); }
  void Set(const std::string& key, float value) { Set(key, GgufType::kFloat32, Raw(value)); }
  void Set(const std::string& key, std::string_view value) { Set(key, GgufType::kString, RawText(value)); }
  void Set(const std::string& key, const std::vector<std::string>& values) {
    std::string bytes = Raw(static_cast<std::uint32_t>(GgufType::kString)) + Raw(std::uint64_t{values.size()});
    for (const std::string& value : values) bytes += RawText(value);
    Set(key, GgufType::kArray, bytes);
  }
  template <typename T>
  void SetNumbers(const std::string& key, GgufType type, const std::vector<T>& values) {
    std::string bytes = Raw(static_cast<std::uint32_t>(type)) + Raw(std::uint64_t{values.size()});
    for (const T value : values) bytes += Raw(value);
    Set(key, GgufType::kArray, bytes);
  }
  void Remove(std::string_view key) {
    std::erase_if(keys, [&](const Key& one) { return one.key == key; });
  }
  Tensor& At(std::string_view name) {
    for (Tensor& one : tensors) {
      if (one.name == name) return one;
    }
    std::abort();
  }
  void RemoveTensor(std::string_view name) {
    std::erase_if(tensors, [&](const Tensor& one) { return one.name == name; });
  }

  std::string Bytes(std::uint64_t alignment = 32) const {
    std::string head =
        magic + Raw(version) + Raw(tensor_count.value_or(tensors.size())) + Raw(key_count.value_or(keys.size()));
    for (const Key& key : keys) head += RawText(key.key) + Raw(key.type) + key.value;
    std::string data;
    for (const Tensor& tensor : tensors) {
      data.resize((data.size() + alignment - 1) / alignment * alignment);
      const std::uint32_t count = tensor.dimension_count.value_or(static_cast<std::uint32_t>(tensor.dimensions.size()));
      head += RawText(tensor.name) + Raw(count);
      for (const std::uint64_t size : tensor.dimensions) head += Raw(size);
      head += Raw(tensor.format) + Raw(tensor.offset.value_or(data.size()));
      for (std::uint64_t i = 0; i < tensor.bytes; ++i) data += static_cast<char>((i + tensor.bytes) % 60);
    }
    head.resize((head.size() + alignment - 1) / alignment * alignment);
    return head + data;
  }
};

// One layer of width 64, 4 heads over 2, feed-forward 96, 300 tokens; formats mixed; untied.
inline RawGguf TinyGguf() {
  RawGguf file;
  file.Set("general.architecture", "llama");
  file.Set("general.name", "tiny");
  file.Set("llama.block_count", 1u);
  file.Set("llama.context_length", 256u);
  file.Set("llama.embedding_length", 64u);
  file.Set("llama.feed_forward_length", 96u);
  file.Set("llama.attention.head_count", 4u);
  file.Set("llama.attention.head_count_kv", 2u);
  file.Set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  file.Set("llama.rope.dimension_count", 16u);
  file.Set("llama.rope.freq_base", 10000.0f);
  const SyntheticVocabulary vocabulary = MakeVocabulary(300);
  file.Set("tokenizer.ggml.model", "gpt2");
  file.Set("tokenizer.ggml.pre", "gpt-2");
  file.Set("tokenizer.ggml.tokens", vocabulary.tokens);
  file.SetNumbers("tokenizer.ggml.token_type", GgufType::kInt32, vocabulary.token_types);
  file.Set("tokenizer.ggml.merges", vocabulary.merges);
  file.Set("tokenizer.ggml.bos_token_id", 0u);
  file.Set("tokenizer.ggml.eos_token_id", 0u);
  file.Set("tokenizer.chat_template", "{{ messages }}");
  file.tensors = {
      {"token_embd.weight", {64, 300}, 8, 64 / 32 * 34 * 300},
      {"output_norm.weight", {64}, 0, 64 * 4},
      {"blk.0.attn_norm.weight", {64}, 0, 64 * 4},
      {"blk.0.attn_q.weight", {64, 64}, 2, 64 / 32 * 18 * 64},
      {"blk.0.attn_k.weight", {64, 32}, 3, 64 / 32 * 20 * 32},
      {"blk.0.attn_v.weight", {64, 32}, 8, 64 / 32 * 34 * 32},
      {"blk.0.attn_output.weight", {64, 64}, 1, 64 * 64 * 2},
      {"blk.0.ffn_norm.weight", {64}, 0, 64 * 4},
      {"blk.0.ffn_gate.weight", {64, 96}, 2, 64 / 32 * 18 * 96},
      {"blk.0.ffn_up.weight", {64, 96}, 30, 64 * 96 * 2},
      {"blk.0.ffn_down.weight", {96, 64}, 0, 96 * 64 * 4},
      {"output.weight", {64, 300}, 1, 64 * 300 * 2},
  };
  return file;
}

// A Hugging Face folder as the text of its files; the weights are given by shapes and filled with a pattern.
struct TinyHf {
  std::vector<std::pair<std::string, std::string>> config = {{"architectures", R"(["LlamaForCausalLM"])"},
                                                             {"model_type", R"("llama")"},
                                                             {"hidden_size", "64"},
                                                             {"intermediate_size", "96"},
                                                             {"num_hidden_layers", "1"},
                                                             {"num_attention_heads", "4"},
                                                             {"num_key_value_heads", "2"},
                                                             {"head_dim", "16"},
                                                             {"vocab_size", "300"},
                                                             {"max_position_embeddings", "256"},
                                                             {"rms_norm_eps", "1e-05"},
                                                             {"rope_theta", "10000.0"},
                                                             {"hidden_act", R"("silu")"},
                                                             {"tie_word_embeddings", "false"},
                                                             {"bos_token_id", "0"},
                                                             {"eos_token_id", "1"}};
  std::vector<std::pair<std::string, std::string>> shapes = {{"model.embed_tokens.weight", "300,64"},
                                                             {"model.norm.weight", "64"},
                                                             {"model.layers.0.input_layernorm.weight", "64"},
                                                             {"model.layers.0.self_attn.q_proj.weight", "64,64"},
                                                             {"model.layers.0.self_attn.k_proj.weight", "32,64"},
                                                             {"model.layers.0.self_attn.v_proj.weight", "32,64"},
                                                             {"model.layers.0.self_attn.o_proj.weight", "64,64"},
                                                             {"model.layers.0.post_attention_layernorm.weight", "64"},
                                                             {"model.layers.0.mlp.gate_proj.weight", "96,64"},
                                                             {"model.layers.0.mlp.up_proj.weight", "96,64"},
                                                             {"model.layers.0.mlp.down_proj.weight", "64,96"},
                                                             {"lm_head.weight", "300,64"}};

  void Set(const std::string& key, const std::string& json) {
    Remove(key);
    config.emplace_back(key, json);
  }
  void Remove(std::string_view key) {
    std::erase_if(config, [&](const auto& one) { return one.first == key; });
  }
  void RemoveTensor(std::string_view name) {
    std::erase_if(shapes, [&](const auto& one) { return one.first == name; });
  }

  std::string Config() const {
    std::string text;
    for (const auto& [key, json] : config) text += fmt::format("{}\"{}\": {}", text.empty() ? "{" : ", ", key, json);
    return text + "}";
  }

  // BF16 weights.
  static std::string Safetensors(const std::vector<std::pair<std::string, std::string>>& shapes) {
    std::string header;
    std::uint64_t place = 0;
    for (const auto& [name, shape] : shapes) {
      std::uint64_t bytes = 2;
      for (std::size_t at = 0; at != std::string::npos; at = shape.find(',', at + 1)) {
        bytes *= std::stoull(shape.substr(at == 0 ? 0 : at + 1));
      }
      header += fmt::format(R"({}"{}": {{"dtype": "BF16", "shape": [{}], "data_offsets": [{}, {}]}})",
                            header.empty() ? "{" : ", ", name, shape, place, place + bytes);
      place += bytes;
    }
    return WithLength(header + "}") + std::string(place, '\1');
  }
  static std::string WithLength(const std::string& header) {
    return Raw(static_cast<std::uint64_t>(header.size())) + header;
  }

  static std::string Tokenizer() {
    const SyntheticVocabulary made = MakeVocabulary(300);
    std::string vocabulary;
    std::string merges;
    for (std::size_t id = 0; id < made.tokens.size(); ++id) {
      std::string token = made.tokens[id];
      if (token == "\"" || token == "\\") token = "\\" + token;
      vocabulary += fmt::format("{}\"{}\": {}", id == 0 ? "" : ", ", token, id);
    }
    for (const std::string& merge : made.merges) merges += fmt::format("{}\"{}\"", merges.empty() ? "" : ", ", merge);
    return fmt::format(
        R"({{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [{{"id": 0, "content": )"
        R"("<|endoftext|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, )"
        R"("special": true}}], "normalizer": null, "pre_tokenizer": {{"type": "ByteLevel", "add_prefix_space": false, )"
        R"("trim_offsets": true, "use_regex": true}}, "post_processor": null, "decoder": {{"type": "ByteLevel"}}, )"
        R"("model": {{"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, )"
        R"("end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": {{{}}}, "merges": [{}]}}}})",
        vocabulary, merges);
  }

  void Write(const std::string& folder) const {
    std::filesystem::create_directories(folder);
    const auto write = [&](std::string_view name, const std::string& bytes) {
      std::ofstream(folder + "/" + std::string(name), std::ios::binary) << bytes;
    };
    write("config.json", Config());
    write("tokenizer.json", Tokenizer());
    write("model.safetensors", Safetensors(shapes));
  }
};

}  // namespace skein::formats::testing
