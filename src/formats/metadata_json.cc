// SPDX-License-Identifier: Apache-2.0
#include "formats/metadata_json.h"

#include <fmt/format.h>

#include <cmath>

namespace skein::formats {
namespace {

constexpr std::size_t kItemsShown = 16;

// Bytes of the well-formed UTF-8 character that `text` begins with; 0 when it begins with none.
std::size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xc2 ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (length == 3 && ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f))) return 0;
  if (length == 4 && ((lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f))) return 0;
  return length;
}

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
  std::string json = "\"";
  while (!text.empty()) {
    const std::size_t length = CharacterBytes(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    text.remove_prefix(character.size());
    if (length == 0) {
      json += "\xef\xbf\xbd";
    } else if (character == "\"" || character == "\\") {
      json += '\\';
      json += character;
    } else if (character == "\n") {
      json += "\\n";
    } else if (character == "\t") {
      json += "\\t";
    } else if (static_cast<unsigned char>(character[0]) < 0x20 || character[0] == 0x7f) {
      json += fmt::format("\\u{:04x}", static_cast<unsigned>(character[0]));
    } else {
      json += character;
    }
  }
  return json + '"';
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
