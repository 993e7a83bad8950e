// SPDX-License-Identifier: Apache-2.0
#include "formats/metadata_json.h"

#include <fmt/format.h>

#include <cmath>

#include "base/json_writer.h"

namespace skein::formats {
namespace {

constexpr std::size_t kItemsShown = 16;

std::string JsonReal(double value, bool single) {
  if (!std::isfinite(value)) return fmt::format("\"{}\"", value);
  return single ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
}

std::string JsonInteger(std::int64_t value, GgufType type) {
  if (type == GgufType::kBool) return value != 0 ? "true" : "false";
  return type == GgufType::kUint64 ? fmt::format("{}", static_cast<std::uint64_t>(value)) : fmt::format("{}", value);
}

template <typename Items, typename One>
std::string JsonItems(const Items& items, const One& one) {
  std::string json = "[";
  for (const auto& item : items) {
    if (json.size() > 1) json += ",";
    json += one(item);
  }
  return json + "]";
}

std::string JsonArray(const GgufArray& array) {
  const bool nested = std::holds_alternative<std::monostate>(array.items);
  if (nested || array.count > kItemsShown) {
    const std::string_view what = nested                                                          ? "arrays"
                                  : std::holds_alternative<std::vector<std::string>>(array.items) ? "strings"
                                                                                                  : "numbers";
    return fmt::format("\"[{} {}]\"", array.count, what);
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&array.items)) return JsonItems(*texts, JsonText);
  if (const auto* reals = std::get_if<std::vector<float>>(&array.items)) {
    return JsonItems(*reals, [](float value) { return JsonReal(value, /*single=*/true); });
  }
  return JsonItems(std::get<std::vector<std::int64_t>>(array.items),
                   [&](std::int64_t value) { return JsonInteger(value, array.type); });
}

}  // namespace

std::string JsonText(std::string_view text) {
  std::string json;
  AppendJsonString(json, text);
  return json;
}

std::string JsonOf(const GgufValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value.value)) return JsonInteger(*number, value.type);
  if (const auto* real = std::get_if<double>(&value.value)) {
    return JsonReal(*real, value.type == GgufType::kFloat32);
  }
  if (const auto* text = std::get_if<std::string>(&value.value)) return JsonText(*text);
  return JsonArray(std::get<GgufArray>(value.value));
}

}  // namespace skein::formats
