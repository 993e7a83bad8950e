// SPDX-License-Identifier: Apache-2.0
#include "jsonl.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <charconv>
#include <limits>

#include "base/json_writer.h"

namespace skein::app {
namespace {

constexpr std::size_t kLineBytesMax = 1u << 30;
constexpr std::size_t kBlockBytes = 1 << 18;
constexpr std::size_t kDepthMax = 1000;  // of nested values in one line

// JSON may hold halves of surrogate pairs (\\ud800), which are no characters: each becomes U+FFFD.
std::string WithoutLoneSurrogates(std::string_view line) {
  const auto unit_at = [&](std::size_t at) -> unsigned {
    unsigned unit = 0;
    if (at + 6 > line.size() || line[at] != '\\' || line[at + 1] != 'u') return 0;
    const auto [end, error] = std::from_chars(line.data() + at + 2, line.data() + at + 6, unit, 16);
    return error == std::errc() && end == line.data() + at + 6 ? unit : 0;
  };
  std::string out;
  out.reserve(line.size());
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] != '\\' || at + 1 >= line.size()) {
      out += line[at++];
      continue;
    }
    const unsigned unit = unit_at(at), next = unit_at(at + 6);
    const bool high = unit >= 0xd800 && unit <= 0xdbff, low = unit >= 0xdc00 && unit <= 0xdfff;
    const bool pair = high && next >= 0xdc00 && next <= 0xdfff;
    const std::size_t length = pair ? 12 : unit != 0 ? 6 : 2;
    if ((high || low) && !pair) {
      out += "\\ufffd";
    } else {
      out += line.substr(at, length);
    }
    at += length;
  }
  return out;
}

Result<std::string> AnswerOne(std::string_view line, std::string_view shown, const AnswerLine& answer) {
  SKEIN_ASSIGN_OR_RETURN(const boost::json::value value, ParseJson(WithoutLoneSurrogates(line), shown));
  if (!value.is_object()) return InvalidArgument(fmt::format("{} is expected to be a JSON object", shown));
  return answer(value.get_object());
}

// Answers one line; empty for a line without text.
std::string AnswerText(std::string_view line, std::size_t number, const AnswerLine& answer) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return "";
  const Result<std::string> answered = AnswerOne(line, fmt::format("line {}", number), answer);
  if (answered.ok()) return *answered + "\n";
  JsonWriter json;
  json.BeginObject().Member("error", answered.status().message()).EndObject();
  return json.Take() + "\n";
}

}  // namespace

Result<boost::json::value> ParseJson(std::string_view text, std::string_view shown) {
  boost::json::parse_options options;
  options.max_depth = kDepthMax;
  boost::json::error_code error;
  boost::json::value value = boost::json::parse({text.data(), text.size()}, error, {}, options);
  if (error) return InvalidArgument(fmt::format("{} is expected to be JSON, found {}", shown, error.message()));
  return value;
}

// Answers leave as soon as no further whole line is there, so that a program at both ends of the pipes may wait for
// each answer before it writes the next line.
Status AnswerLines(const AnswerLine& answer, Context& context) {
  std::string held, block(kBlockBytes, '\0');
  std::size_t number = 0;
  while (true) {
    SKEIN_ASSIGN_OR_RETURN(const std::size_t count, ReadSomeStandardInput(block));
    const std::size_t searched = held.size();
    held.append(block, 0, count);
    std::size_t begin = 0;
    for (std::size_t end; (end = held.find('\n', std::max(begin, searched))) != std::string::npos; begin = end + 1) {
      SKEIN_RETURN_IF_ERROR(context.out().Write(AnswerText(std::string_view(held).substr(begin, end - begin), ++number, answer)));
    }
    held.erase(0, begin);
    if (count == 0) break;
    if (begin > 0) SKEIN_RETURN_IF_ERROR(context.out().Flush());
    if (held.size() > kLineBytesMax) {
      return LimitExceeded(fmt::format("line {} holds more than {} bytes", number + 1, kLineBytesMax));
    }
  }
  SKEIN_RETURN_IF_ERROR(context.out().Write(AnswerText(held, ++number, answer)));
  return context.out().Flush();
}

Result<bool> BoolMember(const boost::json::object& line, std::string_view key, bool fallback) {
  const boost::json::value* value = line.if_contains({key.data(), key.size()});
  if (value == nullptr || value->is_null()) return fallback;
  if (!value->is_bool()) return InvalidArgument(fmt::format("{} is expected to be true or false", key), std::string(key));
  return value->get_bool();
}

Result<std::string> TextMember(const boost::json::object& line, std::string_view key) {
  const boost::json::value* value = line.if_contains({key.data(), key.size()});
  if (value == nullptr || !value->is_string()) {
    return InvalidArgument(fmt::format("{} is expected to be a text", key), std::string(key));
  }
  return std::string(value->get_string().data(), value->get_string().size());
}

Result<std::vector<TokenId>> IdList(const boost::json::value& value, std::string_view shown) {
  const boost::json::array* array = value.if_array();
  if (array == nullptr) return InvalidArgument(fmt::format("{} is expected to be a list of token ids", shown));
  std::vector<TokenId> ids;
  ids.reserve(array->size());
  for (const boost::json::value& item : *array) {
    const std::int64_t* id = item.if_int64();
    if (id == nullptr || *id < 0 || *id > std::numeric_limits<TokenId>::max()) {
      return InvalidArgument(fmt::format("{} is expected to be a list of token ids, found something else at place {}",
                                         shown, ids.size()));
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

Result<std::vector<TokenId>> IdList(std::string_view text, std::string_view flag) {
  std::vector<TokenId> ids;
  while (true) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ') || word.ends_with('\n')) word.remove_suffix(1);
    TokenId id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0) {
      return InvalidArgument(fmt::format("{} takes token ids with commas between them, such as 1,2,3, found '{}'", flag,
                                         word.substr(0, 40)),
                             std::string(flag));
    }
    ids.push_back(id);
    if (comma == text.size()) return ids;
    text.remove_prefix(comma + 1);
  }
}

Result<std::string> FromBase64(std::string_view text) {
  const auto value_of = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  const Status broken = InvalidArgument("bytes_base64 is expected to be base64 with its padding", "bytes_base64");
  if (text.size() % 4 != 0) return broken;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    const bool last = at + 4 == text.size();
    const int padding = !last ? 0 : text[at + 3] != '=' ? 0 : text[at + 2] != '=' ? 1 : 2;
    unsigned word = 0;
    for (int i = 0; i < 4; ++i) {
      const int value = i >= 4 - padding ? 0 : value_of(text[at + static_cast<std::size_t>(i)]);
      if (value < 0) return broken;
      word = word << 6 | static_cast<unsigned>(value);
    }
    for (int i = 0; i < 3 - padding; ++i) bytes += static_cast<char>(word >> (16 - 8 * i) & 0xff);
  }
  return bytes;
}

}  // namespace skein::app
