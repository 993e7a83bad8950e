// SPDX-License-Identifier: Apache-2.0
//
// GgufWriter writes a GGUF file (version 3): metadata and tensor descriptions are collected first, then the tensors'
// bytes are streamed in the order in which they were described. The file is there whole or not at all
// (base/output_file.h). Used by `skein make-model` and by tests; one thread.
//
// Order of calls: Add…, Begin, Write for every tensor, Finish.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/output_file.h"
#include "base/status.h"
#include "tensor/dtype.h"

namespace skein::formats {

class GgufWriter {
 public:
  static constexpr std::uint64_t kAlignment = 32;

  void AddUint32(std::string_view key, std::uint32_t value);
  void AddFloat32(std::string_view key, float value);
  void AddBool(std::string_view key, bool value);
  void AddText(std::string_view key, std::string_view value);
  void AddTexts(std::string_view key, std::span<const std::string> values);
  void AddInt32s(std::string_view key, std::span<const std::int32_t> values);
  void AddFloat32s(std::string_view key, std::span<const float> values);

  // `dimensions` innermost first. Requires: rows of whole blocks, a size that fits 64 bits.
  void AddTensor(std::string_view name, std::vector<std::uint64_t> dimensions, DType dtype);

  // Bytes of the whole file as described so far.
  std::uint64_t FileBytes() const;

  // Creates the temporary file and writes everything before the data.
  Status Begin(const std::string& path);
  // Bytes of the current tensor, from its beginning to its end over any number of calls. Requires: no call crosses a
  // tensor's end.
  Status Write(std::span<const std::byte> bytes);
  // Requires: all bytes of all tensors were written.
  Status Finish();

 private:
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dimensions;
    DType dtype = DType::kF32;
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;  // from the beginning of the data
  };

  void AddKey(std::string_view key, std::uint32_t type);
  void AddArrayHead(std::string_view key, std::uint32_t type, std::uint64_t count);
  std::string Head() const;

  std::string metadata_;  // encoded
  std::uint64_t metadata_count_ = 0;
  std::vector<Tensor> tensors_;
  std::uint64_t data_bytes_ = 0;
  std::optional<OutputFile> file_;
  std::size_t tensor_ = 0;          // being written
  std::uint64_t tensor_bytes_ = 0;  // of it, written
};

}  // namespace skein::formats
