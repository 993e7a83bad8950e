// SPDX-License-Identifier: Apache-2.0
//
// Gguf is the container: metadata and tensor descriptions of one GGUF file (versions 2 and 3), read with pread and
// checked. It knows nothing of models; formats/gguf_model.cc gives its keys a meaning, formats/tokenizer_gguf.cc reads
// the tokenizer from it. Every size of the file goes through base/checked.h and is compared with the bytes that remain
// before anything is allocated.
//
// Source: the GGUF specification of the ggml project.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"

namespace skein::formats {

enum class GgufType : std::uint32_t {
  kUint8 = 0, kInt8, kUint16, kInt16, kUint32, kInt32, kFloat32, kBool, kString, kArray, kUint64, kInt64, kFloat64
};

// Arrays of arrays are read past (checked, bounded in depth) and kept as an empty array of type kArray.
struct GgufArray {
  GgufType type = GgufType::kUint8;
  std::uint64_t count = 0;
  std::variant<std::monostate, std::vector<std::string>, std::vector<std::int64_t>, std::vector<float>> items;
};

struct GgufValue {
  GgufType type = GgufType::kUint8;
  // Integers and bool as int64 (uint64 beyond int64 as its bits), floats as double.
  std::variant<std::int64_t, double, std::string, GgufArray> value;
};

struct GgufTensor {
  std::string name;
  std::vector<std::uint64_t> dimensions;  // as the file has them: innermost first
  DType dtype = DType::kF32;
  std::uint64_t offset = 0;  // from the beginning of the file
  std::uint64_t bytes = 0;
};

class Gguf {
 public:
  // Requires: `descriptor` is a regular file open for reading, of `size` bytes. Does not take it over.
  static Result<Gguf> Parse(int descriptor, std::uint64_t size);

  int version() const { return version_; }
  const GgufValue* Find(std::string_view key) const;
  const std::vector<std::pair<std::string, GgufValue>>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  // Typed look-ups: absent keys give the fallback where there is one, a value of another type or out of
  // [minimum, maximum] is kInvalidFile that names the key.
  Result<std::int64_t> Integer(std::string_view key, std::int64_t minimum, std::int64_t maximum) const;
  Result<std::int64_t> Integer(std::string_view key, std::int64_t minimum, std::int64_t maximum,
                               std::int64_t fallback) const;
  Result<double> Real(std::string_view key, double fallback) const;  // finite, or kInvalidFile
  Result<bool> Boolean(std::string_view key, bool fallback) const;
  Result<std::string> Text(std::string_view key) const;
  Result<std::string> Text(std::string_view key, std::string fallback) const;
  // nullptr when absent; another type is kInvalidFile.
  Result<const std::vector<std::string>*> Strings(std::string_view key) const;
  Result<const std::vector<std::int64_t>*> Integers(std::string_view key) const;
  Result<const std::vector<float>*> Reals(std::string_view key) const;

 private:
  int version_ = 3;
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::vector<std::uint32_t> by_key_;  // places in metadata_, sorted by key
  std::vector<GgufTensor> tensors_;
};

}  // namespace skein::formats
