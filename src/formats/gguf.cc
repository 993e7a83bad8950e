// SPDX-License-Identifier: Apache-2.0
//
// Looking things up in a parsed GGUF file. Parsing is formats/gguf_parser.cc.
#include "formats/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace skein::formats {
namespace {

constexpr std::string_view kTypeNames[] = {"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                           "bool",  "string", "array",  "uint64", "int64",  "float64"};

std::string_view NameOf(GgufType type) { return kTypeNames[static_cast<std::size_t>(type)]; }

bool IsInteger(GgufType type) {
  return type != GgufType::kFloat32 && type != GgufType::kFloat64 && type != GgufType::kBool &&
         type != GgufType::kString && type != GgufType::kArray;
}

Status Missing(std::string_view key) {
  return InvalidFile(fmt::format("the metadata key {} is missing", key), std::string(key));
}

Status Expected(std::string_view key, std::string_view wanted, const GgufValue& found) {
  std::string shown(NameOf(found.type));
  if (const auto* number = std::get_if<std::int64_t>(&found.value)) {
    shown = found.type == GgufType::kUint64 ? fmt::format("{}", static_cast<std::uint64_t>(*number))
                                            : fmt::format("{}", *number);
    if (found.type == GgufType::kBool) shown = *number != 0 ? "true" : "false";
  } else if (const auto* real = std::get_if<double>(&found.value)) {
    shown = fmt::format("{}", *real);
  } else if (const auto* array = std::get_if<GgufArray>(&found.value)) {
    shown = fmt::format("an array of {} {}", array->count, NameOf(array->type));
  } else if (found.type == GgufType::kString) {
    shown = "a string";
  }
  return InvalidFile(fmt::format("the metadata key {} should be {}, found {}", key, wanted, shown), std::string(key));
}

template <typename Items>
Result<const Items*> ArrayOf(const Gguf& file, std::string_view key, std::string_view wanted) {
  const GgufValue* found = file.Find(key);
  if (found == nullptr) return static_cast<const Items*>(nullptr);
  const auto* array = std::get_if<GgufArray>(&found->value);
  const Items* items = array == nullptr ? nullptr : std::get_if<Items>(&array->items);
  if (items == nullptr) return Expected(key, wanted, *found);
  return items;
}

}  // namespace

const GgufValue* Gguf::Find(std::string_view key) const {
  const auto place = std::lower_bound(by_key_.begin(), by_key_.end(), key, [this](std::uint32_t index, auto wanted) {
    return std::string_view(metadata_[index].first) < wanted;
  });
  if (place == by_key_.end() || metadata_[*place].first != key) return nullptr;
  return &metadata_[*place].second;
}

Result<std::int64_t> Gguf::Integer(std::string_view key, std::int64_t minimum, std::int64_t maximum) const {
  const GgufValue* found = Find(key);
  if (found == nullptr) return Missing(key);
  const std::int64_t* value = IsInteger(found->type) ? std::get_if<std::int64_t>(&found->value) : nullptr;
  const bool beyond = value != nullptr && found->type == GgufType::kUint64 && *value < 0;  // above 2^63
  if (value == nullptr || beyond || *value < minimum || *value > maximum) {
    return Expected(key, fmt::format("an integer from {} to {}", minimum, maximum), *found);
  }
  return *value;
}

Result<std::int64_t> Gguf::Integer(std::string_view key, std::int64_t minimum, std::int64_t maximum,
                                   std::int64_t fallback) const {
  if (Find(key) == nullptr) return fallback;
  return Integer(key, minimum, maximum);
}

Result<double> Gguf::Real(std::string_view key, double fallback) const {
  const GgufValue* found = Find(key);
  if (found == nullptr) return fallback;
  const double* value = std::get_if<double>(&found->value);
  if (value == nullptr || !std::isfinite(*value)) return Expected(key, "a finite number", *found);
  return *value;
}

Result<bool> Gguf::Boolean(std::string_view key, bool fallback) const {
  const GgufValue* found = Find(key);
  if (found == nullptr) return fallback;
  if (found->type != GgufType::kBool) return Expected(key, "true or false", *found);
  return std::get<std::int64_t>(found->value) != 0;
}

Result<std::string> Gguf::Text(std::string_view key) const {
  const GgufValue* found = Find(key);
  if (found == nullptr) return Missing(key);
  const std::string* value = std::get_if<std::string>(&found->value);
  if (value == nullptr) return Expected(key, "a string", *found);
  return *value;
}

Result<std::string> Gguf::Text(std::string_view key, std::string fallback) const {
  if (Find(key) == nullptr) return fallback;
  return Text(key);
}

Result<const std::vector<std::string>*> Gguf::Strings(std::string_view key) const {
  return ArrayOf<std::vector<std::string>>(*this, key, "an array of strings");
}

Result<const std::vector<std::int64_t>*> Gguf::Integers(std::string_view key) const {
  return ArrayOf<std::vector<std::int64_t>>(*this, key, "an array of integers");
}

Result<const std::vector<float>*> Gguf::Reals(std::string_view key) const {
  return ArrayOf<std::vector<float>>(*this, key, "an array of float32");
}

}  // namespace skein::formats
