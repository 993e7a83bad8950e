// SPDX-License-Identifier: Apache-2.0
#include "formats/gguf_writer.h"

#include <array>
#include <type_traits>
#include <utility>

#include "base/checked.h"
#include "formats/gguf.h"

namespace skein::formats {
namespace {

template <typename T>
void Append(std::string& out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendText(std::string& out, std::string_view text) {
  Append(out, static_cast<std::uint64_t>(text.size()));
  out += text;
}

// The numbers of formats in the file.
std::uint32_t FormatNumber(DType dtype) {
  constexpr std::array<std::uint32_t, 6> kNumbers = {0, 1, 30, 2, 3, 8};  // F32 F16 BF16 Q4_0 Q4_1 Q8_0
  return kNumbers[static_cast<std::size_t>(dtype)];
}

std::uint64_t Padding(std::uint64_t bytes) {
  return (GgufWriter::kAlignment - bytes % GgufWriter::kAlignment) % GgufWriter::kAlignment;
}

constexpr std::uint32_t Number(GgufType type) { return static_cast<std::uint32_t>(type); }

}  // namespace

void GgufWriter::AddKey(std::string_view key, std::uint32_t type) {
  AppendText(metadata_, key);
  Append(metadata_, type);
  ++metadata_count_;
}

void GgufWriter::AddUint32(std::string_view key, std::uint32_t value) {
  AddKey(key, Number(GgufType::kUint32));
  Append(metadata_, value);
}

void GgufWriter::AddFloat32(std::string_view key, float value) {
  AddKey(key, Number(GgufType::kFloat32));
  Append(metadata_, value);
}

void GgufWriter::AddBool(std::string_view key, bool value) {
  AddKey(key, Number(GgufType::kBool));
  Append(metadata_, static_cast<std::uint8_t>(value ? 1 : 0));
}

void GgufWriter::AddText(std::string_view key, std::string_view value) {
  AddKey(key, Number(GgufType::kString));
  AppendText(metadata_, value);
}

void GgufWriter::AddArrayHead(std::string_view key, std::uint32_t type, std::uint64_t count) {
  AddKey(key, Number(GgufType::kArray));
  Append(metadata_, type);
  Append(metadata_, count);
}

void GgufWriter::AddTexts(std::string_view key, std::span<const std::string> values) {
  AddArrayHead(key, Number(GgufType::kString), values.size());
  for (const std::string& value : values) AppendText(metadata_, value);
}

void GgufWriter::AddInt32s(std::string_view key, std::span<const std::int32_t> values) {
  AddArrayHead(key, Number(GgufType::kInt32), values.size());
  for (const std::int32_t value : values) Append(metadata_, value);
}

void GgufWriter::AddFloat32s(std::string_view key, std::span<const float> values) {
  AddArrayHead(key, Number(GgufType::kFloat32), values.size());
  for (const float value : values) Append(metadata_, value);
}

void GgufWriter::AddTensor(std::string_view name, std::vector<std::uint64_t> dimensions, DType dtype) {
  SKEIN_CHECK(!file_.has_value());
  SKEIN_CHECK(!dimensions.empty());
  std::optional<std::uint64_t> bytes = RowBytes(dtype, dimensions[0]);
  for (std::size_t i = 1; i < dimensions.size() && bytes; ++i) bytes = CheckedMultiply(*bytes, dimensions[i]);
  SKEIN_CHECK(bytes.has_value());
  data_bytes_ += Padding(data_bytes_);
  tensors_.push_back({std::string(name), std::move(dimensions), dtype, *bytes, data_bytes_});
  data_bytes_ += *bytes;
}

std::string GgufWriter::Head() const {
  std::string head = "GGUF";
  Append(head, std::uint32_t{3});
  Append(head, static_cast<std::uint64_t>(tensors_.size()));
  Append(head, metadata_count_);
  head += metadata_;
  for (const Tensor& tensor : tensors_) {
    AppendText(head, tensor.name);
    Append(head, static_cast<std::uint32_t>(tensor.dimensions.size()));
    for (const std::uint64_t size : tensor.dimensions) Append(head, size);
    Append(head, FormatNumber(tensor.dtype));
    Append(head, tensor.offset);
  }
  head.append(Padding(head.size()), '\0');
  return head;
}

std::uint64_t GgufWriter::FileBytes() const { return Head().size() + data_bytes_; }

Status GgufWriter::Begin(const std::string& path) {
  Result<OutputFile> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  file_.emplace(std::move(file).value());
  return file_->Write(Head());
}

Status GgufWriter::Write(std::span<const std::byte> bytes) {
  SKEIN_CHECK(file_.has_value());
  SKEIN_CHECK(tensor_ < tensors_.size());
  const Tensor& tensor = tensors_[tensor_];
  SKEIN_CHECK(bytes.size() <= tensor.bytes - tensor_bytes_);
  SKEIN_RETURN_IF_ERROR(file_->Write(bytes));
  tensor_bytes_ += bytes.size();
  if (tensor_bytes_ < tensor.bytes) return OkStatus();
  ++tensor_;
  tensor_bytes_ = 0;
  if (tensor_ == tensors_.size()) return OkStatus();  // the file ends with its data
  constexpr std::array<std::byte, kAlignment> kZeros = {};
  return file_->Write(std::span(kZeros).first(Padding(tensor.bytes)));
}

Status GgufWriter::Finish() {
  SKEIN_CHECK(file_.has_value());
  SKEIN_CHECK(tensor_ == tensors_.size());
  return file_->Commit();
}

}  // namespace skein::formats
