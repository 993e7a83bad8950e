// SPDX-License-Identifier: Apache-2.0
#include "server/openai/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/edit_distance.h"
#include "server/openai/json_body.h"

namespace skein::server {
namespace {

namespace json = boost::json;

constexpr std::size_t kShownBytes = 40;

// At most `bytes` of a text, cut between characters.
std::string_view Cut(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

std::string Quoted(std::string_view text) {
  const std::string_view cut = Cut(text, kShownBytes);
  return json::serialize(json::string(cut.data(), cut.size())) + (cut.size() < text.size() ? "…" : "");
}

bool HasType(const json::value& value, std::uint8_t types) {
  switch (value.kind()) {
    case json::kind::null: return true;
    case json::kind::bool_: return (types & kBoolean) != 0;
    case json::kind::int64:
    case json::kind::uint64: return (types & (kInteger | kNumber)) != 0;
    case json::kind::double_: return (types & kNumber) != 0 || ((types & kInteger) != 0 && ToWholeNumber(value));
    case json::kind::string: return (types & kText) != 0;
    case json::kind::array: return (types & kList) != 0;
    case json::kind::object: return (types & kObject) != 0;
  }
  return false;
}

bool InRange(const json::value& value, const FieldSpec& spec) {
  if (!value.is_number() || spec.use == FieldUse::kIgnored) return true;
  if ((spec.types & kInteger) != 0) {
    const std::optional<WholeNumber> whole = ToWholeNumber(value);
    return whole && whole->IsBetween(spec.integer_min, spec.integer_max);
  }
  const double number = value.to_number<double>();
  return number >= spec.number_min && number <= spec.number_max;
}

// What size_max is about. Where a list is taken too, the cap is the list's.
std::size_t SizeOf(const json::value& value, const FieldSpec& spec) {
  switch (value.kind()) {
    case json::kind::string: return (spec.types & kList) != 0 ? 0 : value.get_string().size();
    case json::kind::array: return value.get_array().size();
    case json::kind::object: return value.get_object().size();
    default: return 0;
  }
}

bool IsHarmless(const json::value& value, const FieldSpec& spec) {
  if (value.is_null()) return true;
  if (spec.harmless.empty()) return false;
  const json::value harmless = json::parse({spec.harmless.data(), spec.harmless.size()});
  const json::array& values = harmless.get_array();
  return std::find(values.begin(), values.end(), value) != values.end();
}

ApiError UnknownField(std::string_view name, const FieldTable& table) {
  std::vector<std::string> names;
  for (const FieldSpec& spec : table.fields) names.emplace_back(spec.name);
  const std::string_view shown = Cut(name, 64);
  const std::string nearest = NearestWord(name, names);
  return BadField(shown, fmt::format("{} has no field {}{}", table.route, Quoted(name),
                                     nearest.empty() ? "; leave it out" : fmt::format("; did you mean {}?", nearest)));
}

std::optional<ApiError> CheckOne(const json::value& value, const FieldSpec& spec) {
  if (value.is_null()) return std::nullopt;
  if (spec.use == FieldUse::kRefused) {
    if (IsHarmless(value, spec)) return std::nullopt;
    return BadField(spec.name, fmt::format("{} {}; leave it out", spec.name, spec.meaning));
  }
  if (!HasType(value, spec.types) || !InRange(value, spec)) {
    return BadField(spec.name, fmt::format("{} is {}, found {}", spec.name, Expected(spec), Shown(value)));
  }
  if (const std::size_t size = SizeOf(value, spec); spec.size_max != 0 && size > spec.size_max) {
    return BadField(spec.name, fmt::format("{} is {}, found {}", spec.name, Expected(spec), size));
  }
  return std::nullopt;
}

FieldSpec Row(std::string_view name, int types, FieldUse use, std::string_view fallback, std::string_view meaning) {
  FieldSpec spec;
  spec.name = name;
  spec.types = static_cast<std::uint8_t>(types);
  spec.use = use;
  spec.fallback = fallback;
  spec.meaning = meaning;
  return spec;
}

}  // namespace

const FieldSpec* FieldTable::Find(std::string_view name) const {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const FieldSpec& spec) { return spec.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

// ---- rows ----

FieldSpec Flag(std::string_view name, std::string_view fallback, std::string_view meaning) {
  return Row(name, kBoolean, FieldUse::kDone, fallback, meaning);
}

FieldSpec Integer(std::string_view name, std::int64_t minimum, std::uint64_t maximum, std::string_view fallback,
                  std::string_view meaning) {
  FieldSpec spec = Row(name, kInteger, FieldUse::kDone, fallback, meaning);
  spec.integer_min = minimum;
  spec.integer_max = maximum;
  return spec;
}

FieldSpec Number(std::string_view name, double minimum, double maximum, std::string_view fallback,
                 std::string_view meaning) {
  FieldSpec spec = Row(name, kNumber, FieldUse::kDone, fallback, meaning);
  spec.number_min = minimum;
  spec.number_max = maximum;
  return spec;
}

FieldSpec Sized(std::string_view name, int types, std::size_t size_max, std::string_view meaning) {
  FieldSpec spec = Row(name, types, FieldUse::kDone, "", meaning);
  spec.size_max = size_max;
  return spec;
}

FieldSpec Required(FieldSpec spec) {
  spec.required = true;
  return spec;
}

FieldSpec Ignored(std::string_view name, int types, std::string_view why) {
  return Row(name, types, FieldUse::kIgnored, "", why);
}

FieldSpec Refused(std::string_view name, std::string_view why, std::string_view harmless) {
  FieldSpec spec = Row(name, 0, FieldUse::kRefused, "", why);
  spec.harmless = harmless;
  return spec;
}

// ---- words ----

std::string Expected(const FieldSpec& spec) {
  std::vector<std::string> kinds;
  if ((spec.types & kBoolean) != 0) kinds.emplace_back("true or false");
  if ((spec.types & kInteger) != 0) kinds.push_back(fmt::format("a whole number from {} to {}", spec.integer_min, spec.integer_max));
  if ((spec.types & kNumber) != 0) kinds.push_back(fmt::format("a number from {} to {}", spec.number_min, spec.number_max));
  const auto sized = [&](std::string_view kind, std::string_view unit) {
    kinds.push_back(spec.size_max == 0 ? std::string(kind) : fmt::format("{} of at most {} {}", kind, spec.size_max, unit));
  };
  const bool cap_is_the_lists = (spec.types & kList) != 0;
  if ((spec.types & kText) != 0 && cap_is_the_lists) kinds.emplace_back("text");
  if ((spec.types & kText) != 0 && !cap_is_the_lists) sized("text", "bytes");
  if ((spec.types & kList) != 0) sized("a list", "items");
  if ((spec.types & kObject) != 0) sized("an object", "members");
  return fmt::format("{}", fmt::join(kinds, " or "));
}

std::string Shown(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null: return "null";
    case json::kind::bool_: return value.get_bool() ? "true" : "false";
    case json::kind::int64: return fmt::format("{}", value.get_int64());
    case json::kind::uint64: return fmt::format("{}", value.get_uint64());
    case json::kind::double_: return fmt::format("{}", value.get_double());
    case json::kind::string: return Quoted({value.get_string().data(), value.get_string().size()});
    case json::kind::array: return value.get_array().empty() ? "an empty list" : "a list";
    case json::kind::object: return "an object";
  }
  return "nothing";
}

// ---- checks ----

std::optional<ApiError> CheckFields(const json::object& body, const FieldTable& table) {
  for (const json::key_value_pair& member : body) {
    const std::string_view name(member.key().data(), member.key().size());
    if (name.starts_with("x_")) continue;
    const FieldSpec* spec = table.Find(name);
    if (spec == nullptr) return UnknownField(name, table);
    if (std::optional<ApiError> error = CheckOne(member.value(), *spec)) return error;
  }
  for (const FieldSpec& spec : table.fields) {
    if (!spec.required) continue;
    const json::value* value = body.if_contains({spec.name.data(), spec.name.size()});
    if (value == nullptr || value->is_null()) {
      return BadField(spec.name, fmt::format("{} is missing: {}", spec.name, spec.meaning));
    }
  }
  return std::nullopt;
}

ApiResult<json::object> ReadBody(std::string_view text, const FieldTable& table) {
  SKEIN_API_ASSIGN_OR_RETURN(json::object body, ParseJsonBody(text));
  if (std::optional<ApiError> error = CheckFields(body, table)) return *error;
  return body;
}

// ---- values ----

const FieldSpec& Fields::SpecOf(std::string_view name) const {
  const FieldSpec* spec = table_->Find(name);
  SKEIN_CHECK(spec != nullptr);
  return *spec;
}

const json::value* Fields::Find(std::string_view name) const {
  if (SpecOf(name).use == FieldUse::kRefused) return nullptr;
  const json::value* value = body_->if_contains({name.data(), name.size()});
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool Fields::Flag(std::string_view name) const {
  if (const json::value* value = Find(name)) return value->get_bool();
  return SpecOf(name).fallback == "true";
}

std::int64_t Fields::Integer(std::string_view name) const {
  if (const std::optional<std::int64_t> value = TryInteger(name)) return *value;
  const std::string_view text = SpecOf(name).fallback;
  std::int64_t number = 0;
  SKEIN_CHECK(std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc());
  return number;
}

double Fields::Number(std::string_view name) const {
  if (const std::optional<double> value = TryNumber(name)) return *value;
  const std::string_view text = SpecOf(name).fallback;
  double number = 0;
  SKEIN_CHECK(std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc());
  return number;
}

std::optional<std::int64_t> Fields::TryInteger(std::string_view name) const {
  const std::optional<std::uint64_t> bits = TryBits(name);
  return bits ? std::optional(static_cast<std::int64_t>(*bits)) : std::nullopt;
}

std::optional<std::uint64_t> Fields::TryBits(std::string_view name) const {
  const json::value* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<WholeNumber> whole = ToWholeNumber(*value);
  SKEIN_CHECK(whole.has_value());
  return whole->bits();
}

std::optional<double> Fields::TryNumber(std::string_view name) const {
  const json::value* value = Find(name);
  return value == nullptr ? std::nullopt : std::optional(value->to_number<double>());
}

std::string Fields::Text(std::string_view name) const {
  const json::value* value = Find(name);
  return value == nullptr ? std::string() : std::string(value->get_string().data(), value->get_string().size());
}

bool WholeNumber::IsBetween(std::int64_t minimum, std::uint64_t maximum) const {
  if (negative) return minimum < 0 && magnitude <= ~static_cast<std::uint64_t>(minimum) + 1;
  return magnitude <= maximum && (minimum <= 0 || magnitude >= static_cast<std::uint64_t>(minimum));
}

std::optional<WholeNumber> ToWholeNumber(const json::value& value) {
  if (value.is_int64()) {
    const std::int64_t number = value.get_int64();
    const auto bits = static_cast<std::uint64_t>(number);
    return WholeNumber{.negative = number < 0, .magnitude = number < 0 ? ~bits + 1 : bits};
  }
  if (value.is_uint64()) return WholeNumber{.negative = false, .magnitude = value.get_uint64()};
  if (!value.is_double()) return std::nullopt;
  const double number = value.get_double();
  // Beyond 2^53 a double that looks whole may be one that was rounded.
  constexpr double kExactMax = 9007199254740992.0;
  if (std::fabs(number) > kExactMax || number != std::trunc(number)) return std::nullopt;
  return WholeNumber{.negative = number < 0, .magnitude = static_cast<std::uint64_t>(std::fabs(number))};
}

}  // namespace skein::server
