// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/checked.h"
#include "formats/json_document.h"
#include "formats/metadata_json.h"
#include "formats/open_file.h"

namespace skein::formats {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kHeaderBytesMax = 100'000'000;  // as the reference library has it
constexpr std::size_t kDimensionsMax = 8;

struct Format {
  std::string_view name;
  std::uint64_t bytes;
  std::optional<DType> dtype;  // nothing: may stand in a file, but not be computed with
};
constexpr Format kFormats[] = {{"F32", 4, DType::kF32}, {"F16", 2, DType::kF16}, {"BF16", 2, DType::kBF16},
                               {"F64", 8, {}},          {"I64", 8, {}},          {"I32", 4, {}},
                               {"I16", 2, {}},          {"I8", 1, {}},           {"U64", 8, {}},
                               {"U32", 4, {}},          {"U16", 2, {}},          {"U8", 1, {}},
                               {"BOOL", 1, {}},         {"F8_E4M3", 1, {}},      {"F8_E5M2", 1, {}}};

Status Wrong(const std::string& name, std::string_view what) {
  return InvalidFile(fmt::format("safetensors tensor {}: {}", name, what), name);
}

std::optional<std::uint64_t> Unsigned(const json::value& value) {
  if (value.is_uint64()) return value.get_uint64();
  if (value.is_int64() && value.get_int64() >= 0) return static_cast<std::uint64_t>(value.get_int64());
  return std::nullopt;
}

// A list of whole numbers from 0, or nothing.
std::optional<std::vector<std::uint64_t>> Sizes(const json::value* value) {
  if (value == nullptr || !value->is_array()) return std::nullopt;
  std::vector<std::uint64_t> sizes;
  for (const json::value& item : value->get_array()) {
    const std::optional<std::uint64_t> size = Unsigned(item);
    if (!size || sizes.size() == kDimensionsMax) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

Status CheckMetadata(const json::value& metadata) {
  if (!metadata.is_object()) return InvalidFile("safetensors header: __metadata__ should be an object", "__metadata__");
  for (const auto& [key, value] : metadata.get_object()) {
    if (!value.is_string()) {
      return InvalidFile("safetensors header: __metadata__ should hold strings only", "__metadata__");
    }
  }
  return OkStatus();
}

// `data` is where the data begins, `data_bytes` how much of it there is.
Status ReadEntry(const std::string& name, const json::value& entry, std::uint64_t data, std::uint64_t data_bytes,
                 FoundTensor* found) {
  if (name.empty()) return InvalidFile("safetensors header: a tensor has an empty name", "header");
  if (!entry.is_object()) return Wrong(name, "should be an object with dtype, shape and data_offsets");
  const json::object& fields = entry.get_object();
  for (const auto& [key, value] : fields) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      return Wrong(name, fmt::format("has the unknown field {}", JsonText({key.data(), key.size()})));
    }
  }
  const json::value* dtype = fields.if_contains("dtype");
  if (dtype == nullptr || !dtype->is_string()) return Wrong(name, "dtype is missing or no string");
  const std::string_view dtype_name(dtype->get_string().data(), dtype->get_string().size());
  const Format* format =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& one) { return one.name == dtype_name; });
  if (format == std::end(kFormats)) return Wrong(name, fmt::format("dtype {} is not known", JsonText(dtype_name)));
  const auto shape = Sizes(fields.if_contains("shape"));
  if (!shape) return Wrong(name, fmt::format("shape should be a list of at most {} whole numbers", kDimensionsMax));
  const auto offsets = Sizes(fields.if_contains("data_offsets"));
  if (!offsets || offsets->size() != 2) return Wrong(name, "data_offsets should be a list of two whole numbers");
  const std::uint64_t begin = (*offsets)[0];
  const std::uint64_t end = (*offsets)[1];
  if (begin > end || end > data_bytes) {
    return Wrong(name, fmt::format("data_offsets are [{}, {}], expected a range in the {} bytes of data", begin, end,
                                   data_bytes));
  }
  std::optional<std::uint64_t> bytes = format->bytes;
  for (const std::uint64_t size : *shape) {
    bytes = size == 0 ? 0 : bytes ? CheckedMultiply(*bytes, size) : bytes;
  }
  if (std::find(shape->begin(), shape->end(), 0u) != shape->end()) bytes = 0;
  if (!bytes || *bytes != end - begin) {
    return Wrong(name, fmt::format("shape {} of dtype {} does not fit its data_offsets [{}, {}]", ShownShape(*shape),
                                   format->name, begin, end));
  }
  found->info.file_name = name;
  found->info.shape = *shape;
  found->info.bytes = *bytes;
  found->info.offset = data + begin;
  if (format->dtype) found->info.dtype = *format->dtype;
  if (!format->dtype) found->odd_format = std::string(format->name);
  return OkStatus();
}

// The tensors follow one another from the first byte of the data to the last.
Status CheckCover(const std::vector<FoundTensor>& tensors, std::uint64_t data, std::uint64_t size) {
  std::vector<const TensorInfo*> order;
  for (const FoundTensor& tensor : tensors) order.push_back(&tensor.info);
  std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return a->offset != b->offset ? a->offset < b->offset : a->bytes < b->bytes;
  });
  std::uint64_t place = data;
  const TensorInfo* last = nullptr;
  for (const TensorInfo* tensor : order) {
    if (tensor->offset != place) {
      return Wrong(tensor->file_name,
                   fmt::format("its data_offsets {} {}", tensor->offset < place ? "overlap" : "leave a hole behind",
                               last == nullptr ? "the header" : last->file_name));
    }
    place += tensor->bytes;
    last = tensor;
  }
  if (place == size) return OkStatus();
  return InvalidFile(fmt::format("the safetensors data has {} bytes, its tensors cover {}", size - data, place - data),
                     "data_offsets");
}

}  // namespace

Result<std::vector<FoundTensor>> ReadSafetensors(int descriptor, std::uint64_t size, int file) {
  std::uint64_t header_bytes = 0;
  if (size < sizeof(header_bytes)) {
    return InvalidFile(fmt::format("the safetensors file ends at byte {}, before the length of its header", size),
                       "header");
  }
  SKEIN_RETURN_IF_ERROR(ReadAt(descriptor, 0, std::as_writable_bytes(std::span(&header_bytes, 1))));
  if (header_bytes > kHeaderBytesMax || header_bytes > size - sizeof(header_bytes)) {
    return InvalidFile(fmt::format("safetensors header: {} bytes, expected at most {} and no more than the file's {}",
                                   header_bytes, kHeaderBytesMax, size),
                       "header");
  }
  std::string text(header_bytes, '\0');
  SKEIN_RETURN_IF_ERROR(ReadAt(descriptor, sizeof(header_bytes), std::as_writable_bytes(std::span(text))));
  if (!text.starts_with('{')) return InvalidFile("the safetensors header should begin with {", "header");
  SKEIN_ASSIGN_OR_RETURN(const json::object header, ParseJsonObject(text, "the safetensors header"));
  const std::uint64_t data = sizeof(header_bytes) + header_bytes;
  std::vector<FoundTensor> tensors;
  for (const auto& [key, value] : header) {
    const std::string name(key.data(), key.size());
    if (name == "__metadata__") {
      SKEIN_RETURN_IF_ERROR(CheckMetadata(value));
      continue;
    }
    SKEIN_RETURN_IF_ERROR(ReadEntry(name, value, data, size - data, &tensors.emplace_back()));
    tensors.back().info.file = file;
  }
  SKEIN_RETURN_IF_ERROR(CheckCover(tensors, data, size));
  return tensors;
}

}  // namespace skein::formats
