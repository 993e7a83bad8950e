// SPDX-License-Identifier: Apache-2.0
//
// Finding filters, and what the files of filters share; see template_filter_tables.h.
#include <algorithm>

#include <fmt/format.h>

#include "text/template_filter_tables.h"
#include "text/template_operators.h"
#include "text/template_print.h"
#include "text/template_strings.h"

namespace skein::text::templates {

const Builtin* FindIn(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Builtin& row) { return row.name == name; });
  return found == table.end() ? nullptr : &*found;
}

const Builtin* FindFilter(std::string_view name) {
  for (const std::span<const Builtin> table :
       {TextFilters(), SequenceFilters(), SelectFilters(), NumberFilters(), MarkupFilters()}) {
    if (const Builtin* found = FindIn(table, name)) return found;
  }
  return nullptr;
}

std::int64_t IntegerArgument(Run& run, const Bound& arguments, std::size_t place, std::int64_t otherwise) {
  if (!arguments.given[place]) return otherwise;
  const Value& value = arguments[place];
  if (value.IsInteger()) return value.integer();
  if (value.is(Kind::kBigInt)) {
    run.meter().Limit("an argument is too large");
  } else if (!FailIfUndefined(run, value)) {
    run.Fail(fmt::format("'{}' object cannot be interpreted as an integer", KindName(value)));
  }
  return otherwise;
}

Text TextArgument(Run& run, const Bound& arguments, std::size_t place, std::string_view otherwise) {
  if (!arguments.given[place]) return Text(std::string(otherwise), kTrusted);
  return ToText(run, arguments[place]);
}

Text StringArgument(Run& run, const Bound& arguments, std::size_t place, std::string_view otherwise) {
  if (!arguments.given[place]) return Text(std::string(otherwise), kTrusted);
  if (arguments[place].IsString()) return arguments[place].text();
  if (!FailIfUndefined(run, arguments[place])) {
    run.Fail(fmt::format("expected str, found {}", KindName(arguments[place])));
  }
  return Text();
}

AttributePath::AttributePath(Run& run, const Value& attribute, const Value* otherwise) : run_(run) {
  if (otherwise != nullptr && !otherwise->is(Kind::kNone)) {
    otherwise_ = *otherwise;
    has_otherwise_ = true;
  }
  if (attribute.IsInteger()) parts_.push_back(attribute);
  if (!attribute.IsString()) return;
  for (Text& part : Split(run, attribute.text(), ".", -1, false)) {
    const bool digits = !part.empty() && part.view().find_first_not_of("0123456789") == std::string_view::npos;
    if (digits && part.size() < 18) {
      parts_.push_back(Value::Int(std::stoll(part.bytes())));
    } else {
      parts_.push_back(run.String(std::move(part)));
    }
  }
}

Value AttributePath::Get(const Value& item) const {
  Value value = item;
  for (const Value& part : parts_) {
    if (run_.failed()) return Value();
    value = GetItem(run_, value, part);
    if (has_otherwise_ && value.is(Kind::kUndefined)) value = otherwise_;
  }
  return value;
}

Value IgnoreCase(Run& run, const Value& value) {
  return value.IsString() ? run.String(Lower(run, value.text())) : value;
}

}  // namespace skein::text::templates
