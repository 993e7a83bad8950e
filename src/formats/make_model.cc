// SPDX-License-Identifier: Apache-2.0
#include "formats/make_model.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "formats/gguf_writer.h"
#include "formats/random_weights.h"
#include "formats/synthetic_vocabulary.h"

namespace skein::formats {
namespace {

struct Shape {
  std::string_view name;
  int layers;
  int hidden;
  int feed_forward;
  int heads;
  int kv_heads;
  int head_dim;
  int vocabulary;
  int context;
  float rope_base;
  bool tied;
};

// The shapes of models that people know: SmolLM2-135M, Llama-3.2-1B, Llama-2-7B; and a small one for tests.
constexpr Shape kShapes[] = {
    {"tiny", 2, 128, 352, 4, 2, 32, 512, 512, 1e4f, true},
    {"135m", 30, 576, 1536, 9, 3, 64, 49152, 8192, 1e5f, true},
    {"1b", 16, 2048, 8192, 32, 8, 64, 128256, 8192, 5e5f, true},
    {"7b", 32, 4096, 11008, 32, 32, 128, 32000, 4096, 1e4f, false},
};

struct PlannedTensor {
  std::string name;
  std::vector<std::uint64_t> dimensions;  // innermost first
  DType dtype;
};

bool IsQuantised(DType dtype) { return InfoOf(dtype).block_elements > 1; }

// As files of this architecture have it: vectors in F32; an embedding that is also the head is kept finer.
std::vector<PlannedTensor> PlanTensors(const Shape& shape, DType format) {
  const auto size = [](int value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t hidden = size(shape.hidden);
  const std::uint64_t query = size(shape.heads) * size(shape.head_dim);
  const std::uint64_t keys = size(shape.kv_heads) * size(shape.head_dim);
  const std::uint64_t inner = size(shape.feed_forward);
  const std::uint64_t vocabulary = size(shape.vocabulary);
  const DType embedding = shape.tied && IsQuantised(format) ? DType::kQ8_0 : format;
  std::vector<PlannedTensor> tensors = {{"token_embd.weight", {hidden, vocabulary}, embedding}};
  for (int layer = 0; layer < shape.layers; ++layer) {
    const auto add = [&](std::string_view name, std::vector<std::uint64_t> dimensions, DType dtype) {
      tensors.push_back({fmt::format("blk.{}.{}.weight", layer, name), std::move(dimensions), dtype});
    };
    add("attn_norm", {hidden}, DType::kF32);
    add("attn_q", {hidden, query}, format);
    add("attn_k", {hidden, keys}, format);
    add("attn_v", {hidden, keys}, format);
    add("attn_output", {query, hidden}, format);
    add("ffn_norm", {hidden}, DType::kF32);
    add("ffn_gate", {hidden, inner}, format);
    add("ffn_up", {hidden, inner}, format);
    add("ffn_down", {inner, hidden}, format);
  }
  tensors.push_back({"output_norm.weight", {hidden}, DType::kF32});
  if (!shape.tied) tensors.push_back({"output.weight", {hidden, vocabulary}, format});
  return tensors;
}

std::uint32_t FileTypeNumber(DType format) {                              // general.file_type of the GGUF specification
  constexpr std::array<std::uint32_t, 6> kNumbers = {0, 1, 32, 2, 3, 7};  // F32 F16 BF16 Q4_0 Q4_1 Q8_0
  return kNumbers[static_cast<std::size_t>(format)];
}

void AddMetadata(const Shape& shape, const MakeModelOptions& options, GgufWriter* writer) {
  const auto number = [&](std::string_view key, int value) {
    writer->AddUint32(fmt::format("llama.{}", key), static_cast<std::uint32_t>(value));
  };
  writer->AddText("general.architecture", "llama");
  writer->AddText("general.name",
                  fmt::format("random {} {} seed {}", shape.name, InfoOf(options.format).name, options.seed));
  writer->AddUint32("general.file_type", FileTypeNumber(options.format));
  writer->AddUint32("general.quantization_version", 2);
  number("vocab_size", shape.vocabulary);
  number("context_length", shape.context);
  number("embedding_length", shape.hidden);
  number("block_count", shape.layers);
  number("feed_forward_length", shape.feed_forward);
  number("attention.head_count", shape.heads);
  number("attention.head_count_kv", shape.kv_heads);
  number("attention.key_length", shape.head_dim);
  number("attention.value_length", shape.head_dim);
  number("rope.dimension_count", shape.head_dim);
  writer->AddFloat32("llama.rope.freq_base", shape.rope_base);
  writer->AddFloat32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  const SyntheticVocabulary vocabulary = MakeVocabulary(shape.vocabulary);
  writer->AddText("tokenizer.ggml.model", "gpt2");
  writer->AddText("tokenizer.ggml.pre", "gpt-2");
  writer->AddTexts("tokenizer.ggml.tokens", vocabulary.tokens);
  writer->AddInt32s("tokenizer.ggml.token_type", vocabulary.token_types);
  writer->AddTexts("tokenizer.ggml.merges", vocabulary.merges);
  writer->AddUint32("tokenizer.ggml.bos_token_id", 0);
  writer->AddUint32("tokenizer.ggml.eos_token_id", 0);
  writer->AddBool("tokenizer.ggml.add_bos_token", false);
}

// Before an hour of writing, not after it. A file system that cannot say is believed to have room.
Status CheckRoom(const std::string& path, std::uint64_t needed) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  struct statvfs found {};
  if (::statvfs(folder.empty() ? "." : folder.c_str(), &found) != 0 || found.f_blocks == 0) return OkStatus();
  const std::uint64_t free = static_cast<std::uint64_t>(found.f_bavail) * found.f_frsize;
  if (needed <= free) return OkStatus();
  return LimitExceeded(fmt::format("{} needs {} MiB, the disk has {} MiB free; choose another place or a smaller shape",
                                   path, (needed >> 20) + 1, free >> 20),
                       "out");
}

class ModelMaker {
 public:
  ModelMaker(const MakeModelOptions& options, GgufWriter* writer) : options_(options), writer_(writer) {}

  Status WriteTensor(const PlannedTensor& tensor, std::uint64_t index) {
    std::uint64_t elements = 1;
    for (const std::uint64_t size : tensor.dimensions) elements *= size;
    const DTypeInfo& info = InfoOf(tensor.dtype);
    const std::uint64_t blocks = elements / static_cast<std::uint64_t>(info.block_elements);
    const std::uint64_t per_piece = kPieceBytes / static_cast<std::uint64_t>(info.block_bytes);
    for (std::uint64_t block = 0; block < blocks; block += per_piece) {
      const std::uint64_t count = std::min(per_piece, blocks - block);
      piece_.resize(count * static_cast<std::uint64_t>(info.block_bytes));
      Fill(tensor, index, block);
      SKEIN_RETURN_IF_ERROR(writer_->Write(piece_));
      done_ += piece_.size();
      if (options_.progress) options_.progress(std::min(done_, all_), all_);
    }
    return OkStatus();
  }

  void SetAll(std::uint64_t bytes) { all_ = bytes; }

 private:
  static constexpr std::uint64_t kPieceBytes = 4 << 20;

  void Fill(const PlannedTensor& tensor, std::uint64_t index, std::uint64_t first_block) {
    const std::uint64_t seed = MixedBits(options_.seed, index);
    if (tensor.dimensions.size() > 1) {
      // Outputs of about 1 from inputs of about 1.
      const float deviation = 1.0f / std::sqrt(static_cast<float>(tensor.dimensions[0]));
      return FillRandomBlocks(tensor.dtype, seed, first_block, deviation, piece_);
    }
    FillRandomBlocks(DType::kF32, seed, first_block, 0.05f, piece_);  // norms: around 1
    for (std::size_t place = 0; place < piece_.size(); place += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, piece_.data() + place, sizeof(value));
      value += 1;
      std::memcpy(piece_.data() + place, &value, sizeof(value));
    }
  }

  const MakeModelOptions& options_;
  GgufWriter* writer_;
  std::vector<std::byte> piece_;
  std::uint64_t done_ = 0;
  std::uint64_t all_ = 0;
};

}  // namespace

std::vector<std::string> MakeModelShapes() {
  std::vector<std::string> names;
  for (const Shape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

Status MakeModel(const MakeModelOptions& options) {
  const Shape* shape =
      std::find_if(std::begin(kShapes), std::end(kShapes), [&](const Shape& one) { return one.name == options.shape; });
  if (shape == std::end(kShapes)) {
    return InvalidArgument(
        fmt::format("unknown shape {}, expected one of {}", options.shape, fmt::join(MakeModelShapes(), ", ")),
        "shape");
  }
  GgufWriter writer;
  AddMetadata(*shape, options, &writer);
  const std::vector<PlannedTensor> tensors = PlanTensors(*shape, options.format);
  for (const PlannedTensor& tensor : tensors) writer.AddTensor(tensor.name, tensor.dimensions, tensor.dtype);
  const std::uint64_t bytes = writer.FileBytes();
  SKEIN_RETURN_IF_ERROR(CheckRoom(options.path, bytes));
  SKEIN_RETURN_IF_ERROR(writer.Begin(options.path));
  ModelMaker maker(options, &writer);
  maker.SetAll(bytes);
  for (std::size_t i = 0; i < tensors.size(); ++i) SKEIN_RETURN_IF_ERROR(maker.WriteTensor(tensors[i], i));
  if (options.progress) options.progress(bytes, bytes);
  return writer.Finish();
}

}  // namespace skein::formats
