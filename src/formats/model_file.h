// SPDX-License-Identifier: Apache-2.0
//
// ModelFile is a model on disk, opened and checked: its configuration, its tensors under names of our own, and bytes
// on demand. A GGUF file or a Hugging Face folder; the caller cannot tell which. Opening reads headers only; weights
// are read with pread, so that a file that shrinks is an error and never a signal.
//
// Thread rule: immutable after Open; Read may be called from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/model_config.h"
#include "formats/tokenizer_data.h"
#include "tensor/dtype.h"

namespace skein::formats {

// Names of our own, the same for every format. Layers are "layers.N." + one of
//   attention_norm, q, k, v, o, feed_forward_norm, gate, up, down      (weights, [rows = outputs, columns = inputs])
//   q_bias, k_bias, v_bias, o_bias, gate_bias, up_bias, down_bias      (vectors)
// and beside them: embedding, output_norm, head (absent when tied), rope_divisors is folded into RopeConfig.
struct TensorInfo {
  std::string name;         // ours
  std::string file_name;    // the file's: "blk.0.attn_q.weight"; errors say this one
  std::vector<std::uint64_t> shape;  // outermost first: [rows, columns] or [elements]
  DType dtype = DType::kF32;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // from the beginning of its file
  int file = 0;              // index of the file that holds it
};

// One key of the file's metadata, printed for people and for `inspect`.
struct MetadataEntry {
  std::string key;
  std::string json;  // the value as JSON; long arrays are cut to a summary string
};

class ModelFile {
 public:
  // A GGUF file (any part of a split one) or a Hugging Face folder. Errors: kInvalidFile with the field's name;
  // kInvalidArgument when there is nothing at `path`.
  static Result<std::unique_ptr<ModelFile>> Open(const std::string& path);
  virtual ~ModelFile() = default;

  const ModelConfig& config() const { return config_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // nullptr when there is none of that name (ours).
  const TensorInfo* Find(std::string_view name) const;
  // Reads `into.size()` bytes of a tensor from `offset` (within the tensor). A short read is kInvalidFile.
  virtual Status Read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> into) const;
  // Reads rows of a matrix from `first_row` to where they stand in `into`, which is whole rows. Only the columns [begin, end) are wanted, and
  // the scales of all blocks: other bytes of `into` may be left as they are.
  virtual Status ReadRows(const TensorInfo& tensor, std::uint64_t first_row, std::uint64_t begin, std::uint64_t end,
                          std::span<std::byte> into) const;

  // The tokenizer, read and checked at Open; a model without one is not valid.
  const TokenizerData& tokenizer() const { return tokenizer_; }
  // The chat template's source; empty when the model has none.
  const std::string& chat_template() const { return chat_template_; }
  const std::vector<MetadataEntry>& metadata() const { return metadata_; }
  const std::string& path() const { return path_; }
  // Which files these are and when they were written last, in words; another model, or the same written anew, has another.
  virtual std::string identity() const;

 protected:
  ModelConfig config_;
  std::vector<TensorInfo> tensors_;
  TokenizerData tokenizer_;
  std::string chat_template_;
  std::vector<MetadataEntry> metadata_;
  std::string path_;
  std::vector<int> descriptors_;  // owned: one per file, closed by the destructor of the implementation
};

}  // namespace skein::formats
