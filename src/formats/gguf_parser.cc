// SPDX-License-Identifier: Apache-2.0
//
// Parsing a GGUF file, as untrusted data. The bytes (little-endian):
//
//   "GGUF"  u32 version  u64 tensor count  u64 metadata count
//   metadata count × { string key, u32 type, value }
//   tensor count   × { string name, u32 dimensions, u64 each, u32 format, u64 offset from the data's beginning }
//   zeros up to a multiple of general.alignment, then the data
//
// A string is a u64 length and its bytes; an array is u32 type, u64 count and the values one after another.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>

#include "base/checked.h"
#include "formats/byte_reader.h"
#include "formats/gguf.h"

namespace skein::formats {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are read as they are");

constexpr std::uint64_t kKeyBytesMax = 65535;  // as the specification says
constexpr std::uint64_t kNameBytesMax = 1024;  // the specification says 64; some converters exceed it
constexpr std::uint64_t kTensorsMax = 1 << 18;
constexpr std::uint64_t kMetadataMax = 1 << 16;
constexpr std::uint64_t kMetadataMemory = 256u << 20;  // what all values together may take once read
constexpr std::uint32_t kDimensionsMax = 4;
constexpr int kArrayDepthMax = 4;
constexpr std::uint64_t kMetadataBytesMin = 8 + 1 + 4 + 1;
constexpr std::uint64_t kTensorBytesMin = 8 + 1 + 4 + 8 + 4 + 8;

// Bytes of a value of a type; 0 for strings and arrays.
constexpr std::array<std::uint64_t, 13> kTypeBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// Numbers of formats in the file, the names of those that are not read here only for the message.
struct FormatName {
  std::uint32_t number;
  std::string_view name;
};
constexpr FormatName kFormats[] = {{0, "F32"},   {1, "F16"},   {2, "Q4_0"},   {3, "Q4_1"},   {6, "Q5_0"},  {7, "Q5_1"},
                                   {8, "Q8_0"},  {9, "Q8_1"},  {10, "Q2_K"},  {11, "Q3_K"},  {12, "Q4_K"}, {13, "Q5_K"},
                                   {14, "Q6_K"}, {15, "Q8_K"}, {24, "I8"},    {25, "I16"},   {26, "I32"},  {27, "I64"},
                                   {28, "F64"},  {30, "BF16"}, {34, "TQ1_0"}, {35, "TQ2_0"}, {39, "MXFP4"}};

std::optional<std::string_view> FormatNameOf(std::uint32_t number) {
  for (const FormatName& format : kFormats) {
    if (format.number == number) return format.name;
  }
  return std::nullopt;
}

// A name for a message of one line: cut, and free of control characters.
std::string Shown(std::string_view name) {
  std::string shown;
  for (const char c : name.substr(0, 80)) {
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return name.size() > 80 ? shown + "…" : shown;
}

class Parser {
 public:
  Parser(int descriptor, std::uint64_t size) : reader_(descriptor, size), size_(size) {}

  Status Run();

  int version = 0;
  std::vector<std::pair<std::string, GgufValue>> metadata;
  std::vector<std::uint32_t> by_key;
  std::vector<GgufTensor> tensors;

 private:
  Status ReadHeader();
  Status ReadMetadata();
  Status ReadKey(std::uint64_t index, std::string* key);
  std::string Behind(std::uint64_t index) const;
  Status ReadValue(const std::string& key, std::uint32_t type, GgufValue* value);
  Status ReadScalar(const std::string& key, GgufValue* value);
  Status ReadString(const std::string& key, std::string* text);
  Status ReadArray(const std::string& key, GgufArray* array);
  Status ReadItems(const std::string& key, GgufArray* array);
  Status SkipArray(const std::string& key, std::uint32_t type, std::uint64_t count, int depth);
  Status ReadArrayHead(const std::string& key, std::uint32_t* type, std::uint64_t* count);
  Status SortKeys();
  Status ReadTensors();
  Status ReadTensor(std::uint64_t index, GgufTensor* tensor);
  Status SizeTensor(std::uint32_t format, GgufTensor* tensor);
  Status PlaceTensors();
  Status CheckOverlap();
  Status Charge(const std::string& key, std::uint64_t bytes);   // counts memory against kMetadataMemory
  Status Cut(std::string_view what, const std::string& field);  // the reader's error, with what was being read

  ByteReader reader_;
  std::uint64_t size_;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t metadata_count_ = 0;
  std::uint64_t alignment_ = 32;
  std::uint64_t memory_ = 0;
};

Status Parser::Run() {
  SKEIN_RETURN_IF_ERROR(ReadHeader());
  SKEIN_RETURN_IF_ERROR(ReadMetadata());
  SKEIN_RETURN_IF_ERROR(ReadTensors());
  SKEIN_RETURN_IF_ERROR(PlaceTensors());
  return CheckOverlap();
}

Status Parser::Cut(std::string_view what, const std::string& field) {
  return Status(reader_.status().code(), fmt::format("{}: {}", what, reader_.status().message()), field);
}

Status Parser::ReadHeader() {
  std::array<char, 4> magic = {};
  std::uint32_t number = 0;
  if (!reader_.Take(&magic)) return Cut("magic", "magic");
  if (std::string_view(magic.data(), 4) != "GGUF") {
    return InvalidFile("no GGUF file: the magic bytes \"GGUF\" are missing at its beginning", "magic");
  }
  if (!reader_.Take(&number)) return Cut("version", "version");
  if (number == 0x02000000 || number == 0x03000000) {
    return InvalidFile("version: the file is big-endian, expected little-endian", "version");
  }
  if (number != 2 && number != 3) {
    return InvalidFile(fmt::format("version: GGUF version {} is not supported, expected 2 or 3", number), "version");
  }
  version = static_cast<int>(number);
  if (!reader_.Take(&tensor_count_)) return Cut("tensor count", "tensor_count");
  if (!reader_.Take(&metadata_count_)) return Cut("metadata count", "metadata_kv_count");
  if (tensor_count_ > kTensorsMax || tensor_count_ > reader_.remaining() / kTensorBytesMin) {
    return InvalidFile(fmt::format("tensor count: {} tensors cannot be in a file of {} bytes (and at most {} are read)",
                                   tensor_count_, size_, kTensorsMax),
                       "tensor_count");
  }
  if (metadata_count_ > kMetadataMax || metadata_count_ > reader_.remaining() / kMetadataBytesMin) {
    return InvalidFile(fmt::format("metadata count: {} keys cannot be in a file of {} bytes (and at most {} are read)",
                                   metadata_count_, size_, kMetadataMax),
                       "metadata_kv_count");
  }
  return OkStatus();
}

Status Parser::ReadMetadata() {
  metadata.reserve(metadata_count_);
  for (std::uint64_t i = 0; i < metadata_count_; ++i) {
    auto& [key, value] = metadata.emplace_back();
    SKEIN_RETURN_IF_ERROR(ReadKey(i, &key));
    std::uint32_t type = 0;
    if (!reader_.Take(&type)) return Cut(fmt::format("type of the metadata key {}", Shown(key)), key);
    SKEIN_RETURN_IF_ERROR(ReadValue(key, type, &value));
  }
  return SortKeys();
}

Status Parser::ReadKey(std::uint64_t index, std::string* key) {
  std::uint64_t length = 0;
  const std::string what = fmt::format("metadata key {} of {}{}", index + 1, metadata_count_, Behind(index));
  if (!reader_.Take(&length)) return Cut(what, "metadata");
  if (length == 0) return InvalidFile(what + " is empty", "metadata");
  if (length > kKeyBytesMax) {
    return InvalidFile(fmt::format("{} has {} bytes, at most {} are allowed", what, length, kKeyBytesMax), "metadata");
  }
  if (!reader_.TakeString(key, length)) return Cut(what, "metadata");
  return Charge(*key, length + sizeof(GgufValue) + sizeof(std::string));
}

Status Parser::ReadValue(const std::string& key, std::uint32_t type, GgufValue* value) {
  if (type >= kTypeBytes.size()) {
    return InvalidFile(
        fmt::format("the metadata key {}{} has the unknown type {}", Shown(key), Behind(metadata.size() - 1), type),
        Shown(key));
  }
  value->type = static_cast<GgufType>(type);
  if (value->type == GgufType::kString) return ReadString(key, &value->value.emplace<std::string>());
  if (value->type == GgufType::kArray) return ReadArray(key, &value->value.emplace<GgufArray>());
  return ReadScalar(key, value);
}

// A key that makes no sense is most often the fault of the value before it, whose length was wrong.
std::string Parser::Behind(std::uint64_t index) const {
  return index == 0 ? "" : fmt::format(" (behind {})", Shown(metadata[index - 1].first));
}

Status Parser::ReadScalar(const std::string& key, GgufValue* value) {
  const auto read = [&]<typename T>(T number) {
    if (!reader_.Take(&number)) return false;
    if constexpr (std::is_floating_point_v<T>) {
      value->value = static_cast<double>(number);
    } else {
      value->value = static_cast<std::int64_t>(number);
    }
    return true;
  };
  bool done = false;
  switch (value->type) {
    case GgufType::kUint8:
    case GgufType::kBool:
      done = read(std::uint8_t{});
      break;
    case GgufType::kInt8:
      done = read(std::int8_t{});
      break;
    case GgufType::kUint16:
      done = read(std::uint16_t{});
      break;
    case GgufType::kInt16:
      done = read(std::int16_t{});
      break;
    case GgufType::kUint32:
      done = read(std::uint32_t{});
      break;
    case GgufType::kInt32:
      done = read(std::int32_t{});
      break;
    case GgufType::kUint64:
      done = read(std::uint64_t{});
      break;
    case GgufType::kInt64:
      done = read(std::int64_t{});
      break;
    case GgufType::kFloat32:
      done = read(float{});
      break;
    case GgufType::kFloat64:
      done = read(double{});
      break;
    case GgufType::kString:
    case GgufType::kArray:
      SKEIN_CHECK(false);
  }
  if (!done) return Cut(fmt::format("value of the metadata key {}", Shown(key)), Shown(key));
  if (value->type == GgufType::kBool && std::get<std::int64_t>(value->value) > 1) {
    return InvalidFile(fmt::format("the metadata key {} should be true or false, found the byte {}", Shown(key),
                                   std::get<std::int64_t>(value->value)),
                       Shown(key));
  }
  return OkStatus();
}

Status Parser::ReadString(const std::string& key, std::string* text) {
  std::uint64_t length = 0;
  if (!reader_.Take(&length)) return Cut(fmt::format("string of the metadata key {}", Shown(key)), Shown(key));
  if (length > reader_.remaining()) {
    return InvalidFile(fmt::format("the metadata key {} has a string of {} bytes, the file has {} more", Shown(key),
                                   length, reader_.remaining()),
                       Shown(key));
  }
  SKEIN_RETURN_IF_ERROR(Charge(key, length));
  if (!reader_.TakeString(text, length))
    return Cut(fmt::format("string of the metadata key {}", Shown(key)), Shown(key));
  return OkStatus();
}

Status Parser::ReadArrayHead(const std::string& key, std::uint32_t* type, std::uint64_t* count) {
  if (!reader_.Take(type) || !reader_.Take(count)) {
    return Cut(fmt::format("array of the metadata key {}", Shown(key)), Shown(key));
  }
  if (*type >= kTypeBytes.size()) {
    return InvalidFile(fmt::format("the metadata key {} is an array of the unknown type {}", Shown(key), *type),
                       Shown(key));
  }
  // An item takes at least: its bytes, a string's length, an array's type and count.
  const std::uint64_t least = *type == static_cast<std::uint32_t>(GgufType::kArray)
                                  ? 12
                                  : std::max<std::uint64_t>(kTypeBytes[*type], kTypeBytes[*type] == 0 ? 8 : 1);
  if (*count > reader_.remaining() / least) {
    return InvalidFile(
        fmt::format("the metadata key {} is an array of {} items, more than the {} bytes that follow hold", Shown(key),
                    *count, reader_.remaining()),
        Shown(key));
  }
  return OkStatus();
}

Status Parser::ReadArray(const std::string& key, GgufArray* array) {
  std::uint32_t type = 0;
  SKEIN_RETURN_IF_ERROR(ReadArrayHead(key, &type, &array->count));
  array->type = static_cast<GgufType>(type);
  if (array->type == GgufType::kArray) return SkipArray(key, type, array->count, 1);
  if (array->type != GgufType::kString) return ReadItems(key, array);
  SKEIN_RETURN_IF_ERROR(Charge(key, array->count * sizeof(std::string)));  // the count is below the file's size
  auto& items = array->items.emplace<std::vector<std::string>>();
  items.reserve(array->count);
  for (std::uint64_t i = 0; i < array->count; ++i) SKEIN_RETURN_IF_ERROR(ReadString(key, &items.emplace_back()));
  return OkStatus();
}

// Numbers and booleans, in pieces that go through a small buffer.
Status Parser::ReadItems(const std::string& key, GgufArray* array) {
  constexpr std::uint64_t kPiece = 4096;
  SKEIN_RETURN_IF_ERROR(Charge(key, array->count * sizeof(std::int64_t)));
  bool whole = true;
  const auto read = [&]<typename T, typename Item>(T, std::vector<Item>& items) {
    std::array<T, kPiece> piece;
    items.reserve(array->count);
    for (std::uint64_t done = 0; done < array->count && whole; done += kPiece) {
      const std::uint64_t count = std::min(kPiece, array->count - done);
      whole = reader_.TakeBytes(reinterpret_cast<std::byte*>(piece.data()), count * sizeof(T));
      for (std::uint64_t i = 0; i < count && whole; ++i) items.push_back(static_cast<Item>(piece[i]));
    }
  };
  if (array->type == GgufType::kFloat32 || array->type == GgufType::kFloat64) {
    auto& items = array->items.emplace<std::vector<float>>();
    array->type == GgufType::kFloat32 ? read(float{}, items) : read(double{}, items);
  } else {
    auto& items = array->items.emplace<std::vector<std::int64_t>>();
    switch (array->type) {
      case GgufType::kInt8:
        read(std::int8_t{}, items);
        break;
      case GgufType::kUint16:
        read(std::uint16_t{}, items);
        break;
      case GgufType::kInt16:
        read(std::int16_t{}, items);
        break;
      case GgufType::kUint32:
        read(std::uint32_t{}, items);
        break;
      case GgufType::kInt32:
        read(std::int32_t{}, items);
        break;
      case GgufType::kUint64:
        read(std::uint64_t{}, items);
        break;
      case GgufType::kInt64:
        read(std::int64_t{}, items);
        break;
      default:
        read(std::uint8_t{}, items);
        break;  // uint8 and bool
    }
  }
  if (!whole) return Cut(fmt::format("array of the metadata key {}", Shown(key)), Shown(key));
  return OkStatus();
}

// Nothing reads arrays of arrays; they are walked for their length only, and never deeper than kArrayDepthMax.
Status Parser::SkipArray(const std::string& key, std::uint32_t type, std::uint64_t count, int depth) {
  if (depth > kArrayDepthMax) {
    return InvalidFile(
        fmt::format("the metadata key {} is an array nested deeper than {} levels", Shown(key), kArrayDepthMax),
        Shown(key));
  }
  if (kTypeBytes[type] != 0) {
    if (!reader_.Skip(count * kTypeBytes[type])) {  // fits: compared with the bytes that follow
      return Cut(fmt::format("array of the metadata key {}", Shown(key)), Shown(key));
    }
    return OkStatus();
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (type == static_cast<std::uint32_t>(GgufType::kString)) {
      std::uint64_t length = 0;
      if (!reader_.Take(&length) || !reader_.Skip(length)) {
        return Cut(fmt::format("array of the metadata key {}", Shown(key)), Shown(key));
      }
      continue;
    }
    std::uint32_t inner_type = 0;
    std::uint64_t inner_count = 0;
    SKEIN_RETURN_IF_ERROR(ReadArrayHead(key, &inner_type, &inner_count));
    SKEIN_RETURN_IF_ERROR(SkipArray(key, inner_type, inner_count, depth + 1));
  }
  return OkStatus();
}

Status Parser::SortKeys() {
  by_key.resize(metadata.size());
  std::iota(by_key.begin(), by_key.end(), 0u);
  std::sort(by_key.begin(), by_key.end(),
            [this](std::uint32_t a, std::uint32_t b) { return metadata[a].first < metadata[b].first; });
  for (std::size_t i = 1; i < by_key.size(); ++i) {
    const std::string& key = metadata[by_key[i]].first;
    if (key == metadata[by_key[i - 1]].first) {
      return InvalidFile(fmt::format("duplicate metadata key {}", Shown(key)), Shown(key));
    }
  }
  return OkStatus();
}

Status Parser::ReadTensors() {
  tensors.reserve(tensor_count_);
  for (std::uint64_t i = 0; i < tensor_count_; ++i) SKEIN_RETURN_IF_ERROR(ReadTensor(i, &tensors.emplace_back()));
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const GgufTensor& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    return InvalidFile(fmt::format("duplicate tensor {}", Shown(*twice)), Shown(*twice));
  }
  return OkStatus();
}

Status Parser::ReadTensor(std::uint64_t index, GgufTensor* tensor) {
  std::uint64_t length = 0;
  const std::string what =
      fmt::format("name of tensor {} of {} (after {} metadata keys)", index + 1, tensor_count_, metadata_count_);
  if (!reader_.Take(&length)) return Cut(what, "tensors");
  if (length == 0 || length > kNameBytesMax) {
    return InvalidFile(fmt::format("{}: {} bytes long, expected 1 to {}", what, length, kNameBytesMax), "tensors");
  }
  if (!reader_.TakeString(&tensor->name, length)) return Cut(what, "tensors");
  const std::string name = Shown(tensor->name);
  std::uint32_t dimensions = 0;
  std::uint32_t format = 0;
  if (!reader_.Take(&dimensions)) return Cut("tensor " + name, name);
  if (dimensions == 0 || dimensions > kDimensionsMax) {
    return InvalidFile(fmt::format("tensor {} has {} dimensions, expected 1 to {}", name, dimensions, kDimensionsMax),
                       name);
  }
  tensor->dimensions.resize(dimensions);
  for (std::uint64_t& size : tensor->dimensions) {
    if (!reader_.Take(&size)) return Cut("tensor " + name, name);
  }
  if (!reader_.Take(&format) || !reader_.Take(&tensor->offset)) return Cut("tensor " + name, name);
  return SizeTensor(format, tensor);
}

Status Parser::SizeTensor(std::uint32_t format, GgufTensor* tensor) {
  const std::string name = Shown(tensor->name);
  const std::optional<std::string_view> format_name = FormatNameOf(format);
  const std::optional<DType> dtype = format_name ? DTypeFromName(*format_name) : std::nullopt;
  if (!dtype) {
    return InvalidFile(fmt::format("tensor {} has format {}, which is not supported; expected F32, F16, BF16, Q4_0, "
                                   "Q4_1 or Q8_0",
                                   name, format_name ? std::string(*format_name) : fmt::format("number {}", format)),
                       name);
  }
  tensor->dtype = *dtype;
  std::optional<std::uint64_t> elements = 1;
  for (const std::uint64_t size : tensor->dimensions) {
    if (size == 0) return InvalidFile(fmt::format("tensor {} has a dimension of 0", name), name);
    if (elements) elements = CheckedMultiply(*elements, size);
  }
  const std::uint64_t columns = tensor->dimensions[0];
  if (columns % static_cast<std::uint64_t>(InfoOf(*dtype).block_elements) != 0) {
    return InvalidFile(fmt::format("tensor {} has rows of {} elements, no whole number of {} blocks of {}", name,
                                   columns, InfoOf(*dtype).name, InfoOf(*dtype).block_elements),
                       name);
  }
  const std::optional<std::uint64_t> row = RowBytes(*dtype, columns);
  const std::optional<std::uint64_t> bytes =
      row && elements ? CheckedMultiply(*row, *elements / columns) : std::nullopt;
  if (!bytes) return InvalidFile(fmt::format("tensor {}: its size does not fit 64 bits", name), name);
  tensor->bytes = *bytes;
  return OkStatus();
}

// Offsets become absolute.
Status Parser::PlaceTensors() {
  const auto key = std::lower_bound(by_key.begin(), by_key.end(), std::string_view("general.alignment"),
                                    [this](std::uint32_t i, auto wanted) { return metadata[i].first < wanted; });
  if (key != by_key.end() && metadata[*key].first == "general.alignment") {
    const GgufValue& value = metadata[*key].second;
    const std::int64_t* number = std::get_if<std::int64_t>(&value.value);
    const bool integer = number != nullptr && value.type != GgufType::kBool;
    if (!integer || *number < 8 || !std::has_single_bit(static_cast<std::uint64_t>(*number))) {
      return InvalidFile("the metadata key general.alignment should be a power of two from 8 on", "general.alignment");
    }
    alignment_ = static_cast<std::uint64_t>(*number);
  }
  if (tensors.empty()) return OkStatus();
  const std::optional<std::uint64_t> data = CheckedAlign(reader_.position(), alignment_);
  if (!data || *data > size_) {
    return InvalidFile(fmt::format("the data should begin behind byte {} at a multiple of {} (general.alignment), past "
                                   "the end of the file at byte {}",
                                   reader_.position(), alignment_, size_),
                       "general.alignment");
  }
  for (GgufTensor& tensor : tensors) {
    const std::string name = Shown(tensor.name);
    if (tensor.offset % alignment_ != 0) {
      return InvalidFile(
          fmt::format("tensor {} has offset {}, no multiple of the alignment {}", name, tensor.offset, alignment_),
          name);
    }
    const std::optional<std::uint64_t> begin = CheckedAdd(*data, tensor.offset);
    const std::optional<std::uint64_t> end = begin ? CheckedAdd(*begin, tensor.bytes) : std::nullopt;
    if (!end || *end > size_) {
      return InvalidFile(fmt::format("tensor {} (offset {}, size {}) reaches past the end of the file at byte {}", name,
                                     tensor.offset, tensor.bytes, size_),
                         name);
    }
    tensor.offset = *begin;
  }
  return OkStatus();
}

Status Parser::CheckOverlap() {
  std::vector<const GgufTensor*> order;
  order.reserve(tensors.size());
  for (const GgufTensor& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i]->offset < order[i - 1]->offset + order[i - 1]->bytes) {
      return InvalidFile(fmt::format("tensors {} and {} overlap", Shown(order[i - 1]->name), Shown(order[i]->name)),
                         Shown(order[i]->name));
    }
  }
  return OkStatus();
}

Status Parser::Charge(const std::string& key, std::uint64_t bytes) {
  memory_ += bytes;  // no wrap: `bytes` is at most 32 times the size of a file, and the sum stops at the limit
  if (memory_ <= kMetadataMemory) return OkStatus();
  return InvalidFile(fmt::format("the metadata up to key {} takes more than {} MiB", Shown(key), kMetadataMemory >> 20),
                     Shown(key));
}

}  // namespace

Result<Gguf> Gguf::Parse(int descriptor, std::uint64_t size) {
  Parser parser(descriptor, size);
  SKEIN_RETURN_IF_ERROR(parser.Run());
  Gguf file;
  file.version_ = parser.version;
  file.metadata_ = std::move(parser.metadata);
  file.by_key_ = std::move(parser.by_key);
  file.tensors_ = std::move(parser.tensors);
  return file;
}

}  // namespace skein::formats
