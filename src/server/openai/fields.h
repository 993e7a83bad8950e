// SPDX-License-Identifier: Apache-2.0
//
// A FieldTable is the one description of an endpoint's fields: what each takes, its range, its default, and whether it
// is done, ignored because that does no harm, or refused because ignoring it would change what the answer means. The
// checks of a request, docs/api.md and the tests of every numeric field come from it.
//
// Checking a body by its table comes first; Fields then reads values without asking again. null is as good as absent,
// since the official clients send it.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/openai/api_error.h"

namespace skein::server {

enum class FieldUse : std::uint8_t {
  kDone,
  kIgnored,  // taken and without effect, which does no harm
  kRefused,  // 400, unless the value says what absence says
};

// Types of JSON that a field takes, as bits. An integer is a number without a fraction, however it is written.
enum FieldTypes : std::uint8_t {
  kBoolean = 1,
  kInteger = 2,
  kNumber = 4,
  kText = 8,
  kList = 16,
  kObject = 32,
};

struct FieldSpec {
  std::string_view name;
  std::uint8_t types = 0;  // of FieldTypes
  FieldUse use = FieldUse::kDone;
  bool required = false;
  std::int64_t integer_min = 0;   // kInteger: inclusive
  std::uint64_t integer_max = 0;
  double number_min = 0;          // kNumber: inclusive
  double number_max = 0;
  std::size_t size_max = 0;       // kText: bytes; kList: items; kObject: members. 0: the body's own limit
  std::string_view fallback = {};  // the default, as JSON or in words; empty: none
  std::string_view harmless = {};  // kRefused: a JSON list of values that say what absence says
  std::string_view meaning = {};   // one line; kRefused: why
};

struct FieldTable {
  std::string_view route;  // "POST /v1/completions"
  std::string_view about;  // one line
  std::vector<FieldSpec> fields;

  const FieldSpec* Find(std::string_view name) const;
};

// Rows of a table.
FieldSpec Flag(std::string_view name, std::string_view fallback, std::string_view meaning);
FieldSpec Integer(std::string_view name, std::int64_t minimum, std::uint64_t maximum, std::string_view fallback,
                  std::string_view meaning);
FieldSpec Number(std::string_view name, double minimum, double maximum, std::string_view fallback,
                 std::string_view meaning);
FieldSpec Sized(std::string_view name, int types, std::size_t size_max, std::string_view meaning);
FieldSpec Required(FieldSpec spec);
FieldSpec Ignored(std::string_view name, int types, std::string_view why);
FieldSpec Refused(std::string_view name, std::string_view why, std::string_view harmless = "");

// "a whole number from 1 to 128", "text or a list of at most 64": what a field takes, for messages and documentation.
std::string Expected(const FieldSpec& spec);
// A value as messages show it: numbers and short texts themselves, "a list" of the rest.
std::string Shown(const boost::json::value& value);

// Whether every field of the body is known, of its type, in its range and within its cap, and every required one
// there. Fields whose names begin with "x_" are a client's own and are left alone.
std::optional<ApiError> CheckFields(const boost::json::object& body, const FieldTable& table);

// A request's body, read strictly (json_body.h) and checked.
ApiResult<boost::json::object> ReadBody(std::string_view text, const FieldTable& table);

// The values of a body that CheckFields has passed. The body and the table outlive it.
class Fields {
 public:
  Fields(const boost::json::object& body, const FieldTable& table) : body_(&body), table_(&table) {}

  // Whether the endpoint has this field at all.
  bool Knows(std::string_view name) const { return table_->Find(name) != nullptr; }
  // nullptr when absent or null, or refused and harmless.
  const boost::json::value* Find(std::string_view name) const;
  bool Has(std::string_view name) const { return Find(name) != nullptr; }

  // The value, or the table's default. Requires: the table says this type and, for these three, a default.
  bool Flag(std::string_view name) const;
  std::int64_t Integer(std::string_view name) const;
  double Number(std::string_view name) const;
  // Nothing when absent. Requires: the table says this type.
  std::optional<std::int64_t> TryInteger(std::string_view name) const;
  // The 64 bits of an integer from -2^63 to 2^64 - 1.
  std::optional<std::uint64_t> TryBits(std::string_view name) const;
  std::optional<double> TryNumber(std::string_view name) const;
  std::string Text(std::string_view name) const;  // empty when absent

 private:
  const FieldSpec& SpecOf(std::string_view name) const;
  const boost::json::object* body_;
  const FieldTable* table_;
};

// A whole number with its sign apart: all of -2^63 … 2^64 - 1 in one type.
struct WholeNumber {
  bool negative = false;
  std::uint64_t magnitude = 0;

  bool IsBetween(std::int64_t minimum, std::uint64_t maximum) const;
  std::uint64_t bits() const { return negative ? ~magnitude + 1 : magnitude; }
};
// Nothing when the value is no number, has a fraction, or is beyond that range.
std::optional<WholeNumber> ToWholeNumber(const boost::json::value& value);

}  // namespace skein::server
