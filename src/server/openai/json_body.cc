// SPDX-License-Identifier: Apache-2.0
#include "server/openai/json_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parse.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace skein::server {
namespace {

namespace json = boost::json;

constexpr std::size_t kDepthMax = 64;
// A value takes 16 bytes when built: 32 MiB. As ids of prompts that is sixteen contexts of 128k tokens.
constexpr std::size_t kValuesMax = 2u << 20;
constexpr std::size_t kMembersMax = 4096;  // of one object; the largest that has a use is a logit_bias of 1024
constexpr std::size_t kShownKeyBytes = 64;

// A walk over the text that builds nothing but the keys of the objects that are open. Boost.JSON wants exactly these
// names; every function answers whether to go on.
struct BodyWatch {
  static constexpr std::size_t max_object_size = kMembersMax;
  static constexpr std::size_t max_array_size = kValuesMax;
  static constexpr std::size_t max_key_size = 1u << 16;
  static constexpr std::size_t max_string_size = 256u << 20;

  std::vector<std::string> keys;      // of all open objects, the innermost last
  std::vector<std::size_t> first_key;  // of each open object, its place in `keys`
  std::string key;                     // the part of it that came
  std::string field;                   // the last key of the outermost object
  std::string mistake;                 // what we found that the parser does not look for
  std::size_t values = 0;
  std::size_t depth = 0;
  bool object_on_top = false;

  bool Stop(std::string what, json::error_code& error) {
    mistake = std::move(what);
    error = json::error::syntax;
    return false;
  }
  bool Count(json::error_code& error) {
    if (++values <= kValuesMax) return true;
    return Stop(fmt::format("has more than {} values", kValuesMax), error);
  }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code& error) {
    object_on_top |= values == 0;
    first_key.push_back(keys.size());
    ++depth;
    return Count(error);
  }
  bool on_object_end(std::size_t, json::error_code& error) {
    // Sorted and not hashed: keys that all have one hash are easy to make.
    const auto first = keys.begin() + static_cast<std::ptrdiff_t>(first_key.back());
    std::sort(first, keys.end());
    const auto twice = std::adjacent_find(first, keys.end());
    if (twice != keys.end()) {
      if (depth == 1) field = *twice;
      return Stop(fmt::format("has the key \"{}\" twice", twice->substr(0, kShownKeyBytes)), error);
    }
    keys.erase(first, keys.end());
    first_key.pop_back();
    --depth;
    return true;
  }
  bool on_array_begin(json::error_code& error) {
    ++depth;
    return Count(error);
  }
  bool on_array_end(std::size_t, json::error_code&) {
    --depth;
    return true;
  }
  bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
    key.append(part.data(), part.size());
    return true;
  }
  bool on_key(json::string_view part, std::size_t, json::error_code&) {
    key.append(part.data(), part.size());
    if (depth == 1) field = key;
    keys.push_back(std::move(key));
    key.clear();
    return true;
  }
  bool on_string_part(json::string_view, std::size_t, json::error_code&) { return true; }
  bool on_string(json::string_view, std::size_t, json::error_code& error) { return Count(error); }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t, json::string_view, json::error_code& error) { return Count(error); }
  bool on_uint64(std::uint64_t, json::string_view, json::error_code& error) { return Count(error); }
  bool on_double(double value, json::string_view, json::error_code& error) {
    if (!std::isfinite(value)) return Stop("has a number too large for any field", error);
    return Count(error);
  }
  bool on_bool(bool, json::error_code& error) { return Count(error); }
  bool on_null(json::error_code& error) { return Count(error); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }
};

json::parse_options Options() {
  json::parse_options options;
  options.max_depth = kDepthMax;
  return options;
}

// What the parser's error means to somebody who wrote the body.
std::string Explain(const json::error_code& error) {
  if (error == json::error::too_deep) return fmt::format("nests deeper than {} levels", kDepthMax);
  if (error == json::error::object_too_large) return fmt::format("has an object of more than {} members", kMembersMax);
  if (error == json::error::key_too_large) return "has a key of more than 65536 bytes";
  if (error == json::error::exponent_overflow) return "has a number too large for any field";
  if (error == json::error::incomplete) return "is not valid JSON: it ends too early";
  return fmt::format("is not valid JSON: {}", error.message());
}

}  // namespace

ApiResult<json::object> ParseJsonBody(std::string_view body) {
  json::basic_parser<BodyWatch> parser(Options());
  json::error_code error;
  const std::size_t used = parser.write_some(/*more=*/false, body.data(), body.size(), error);
  const BodyWatch& watch = parser.handler();
  if (error) {
    const std::string what = watch.mistake.empty() ? Explain(error) : watch.mistake;
    const std::string where = watch.field.substr(0, kShownKeyBytes);
    if (where.empty()) return BadField("body", fmt::format("the body {} (at byte {})", what, used));
    return BadField(where, fmt::format("the body {} (at byte {}, in \"{}\")", what, used, where));
  }
  if (used != body.size()) return BadField("body", fmt::format("the body has text behind its end (at byte {})", used));
  if (!watch.object_on_top) return BadField("body", "the body should be a JSON object: {\"model\": …}");
  json::value value = json::parse({body.data(), body.size()}, error, {}, Options());
  if (error) return BadField("body", fmt::format("the body {}", Explain(error)));
  return std::move(value.get_object());
}

}  // namespace skein::server
