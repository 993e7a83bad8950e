// SPDX-License-Identifier: Apache-2.0
#include "formats/json_document.h"

#include <fmt/format.h>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parse.hpp>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace skein::formats {
namespace {

namespace json = boost::json;

constexpr std::size_t kDepthMax = 64;
constexpr std::size_t kValuesMax = 8u << 20;

// A walk over the text before it is built: the objects that are open, and the keys that each had so far. Boost.JSON
// wants exactly these names; every function answers whether to go on.
struct KeyWatch {
  static constexpr std::size_t max_object_size = kValuesMax;
  static constexpr std::size_t max_array_size = kValuesMax;
  static constexpr std::size_t max_key_size = 1u << 20;
  static constexpr std::size_t max_string_size = 256u << 20;

  std::vector<std::unordered_set<std::string>> open;
  std::string key;
  std::string twice;
  std::size_t values = 0;
  bool object_on_top = false;

  bool Count() { return ++values <= kValuesMax; }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code& error) {
    object_on_top |= values == 0;
    open.emplace_back();
    return Limit(error);
  }
  bool on_object_end(std::size_t, json::error_code&) {
    open.pop_back();
    return true;
  }
  bool on_array_begin(json::error_code& error) { return Limit(error); }
  bool on_array_end(std::size_t, json::error_code&) { return true; }
  bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
    key.append(part.data(), part.size());
    return true;
  }
  bool on_key(json::string_view part, std::size_t, json::error_code& error) {
    key.append(part.data(), part.size());
    if (!open.back().insert(key).second) {
      twice = key;
      error = json::error::syntax;
      return false;
    }
    key.clear();
    return true;
  }
  bool on_string_part(json::string_view, std::size_t, json::error_code&) { return true; }
  bool on_string(json::string_view, std::size_t, json::error_code& error) { return Limit(error); }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t, json::string_view, json::error_code& error) { return Limit(error); }
  bool on_uint64(std::uint64_t, json::string_view, json::error_code& error) { return Limit(error); }
  bool on_double(double, json::string_view, json::error_code& error) { return Limit(error); }
  bool on_bool(bool, json::error_code& error) { return Limit(error); }
  bool on_null(json::error_code& error) { return Limit(error); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

  bool Limit(json::error_code& error) {
    if (Count()) return true;
    error = json::error::array_too_large;
    return false;
  }
};

json::parse_options Options() {
  json::parse_options options;
  options.max_depth = kDepthMax;
  return options;
}

Status NotJson(std::string_view what, const json::error_code& error) {
  return InvalidFile(fmt::format("{} is not valid JSON: {}", what, error.message()), std::string(what));
}

}  // namespace

Result<json::object> ParseJsonObject(std::string_view text, std::string_view what) {
  json::basic_parser<KeyWatch> watch(Options());
  json::error_code error;
  const std::size_t used = watch.write_some(/*more=*/false, text.data(), text.size(), error);
  if (!watch.handler().twice.empty()) {
    const std::string& key = watch.handler().twice;
    return InvalidFile(fmt::format("{} has a duplicate key {}", what, key), key);
  }
  if (error) return NotJson(what, error);
  if (used != text.size()) return InvalidFile(fmt::format("{} has text behind its end", what), std::string(what));
  if (!watch.handler().object_on_top) {
    return InvalidFile(fmt::format("{} should be a JSON object", what), std::string(what));
  }
  json::value value = json::parse({text.data(), text.size()}, error, {}, Options());
  if (error) return NotJson(what, error);
  return std::move(value.get_object());
}

}  // namespace skein::formats
