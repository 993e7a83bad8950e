// SPDX-License-Identifier: Apache-2.0
//
// Builtin: one row of the tables of filters, tests, methods and functions. A row names its parameters, so binding a
// call's arguments (by place or by name, too many, too few, unknown) is done once for all of them.
//
// The tables are constant; look-ups are pure.
#pragma once

#include <array>
#include <string_view>

#include "text/template_value.h"

namespace skein::text::templates {

class Run;

// A call's arguments in the order of the row's parameters.
struct Bound {
  static constexpr std::size_t kMost = 6;
  std::array<Value, kMost> value;
  std::array<bool, kMost> given{};
  Arguments rest;  // of rows whose parameters end in "...": what was not bound

  const Value& operator[](std::size_t i) const { return value[i]; }
};

struct Builtin {
  std::string_view name;
  // `self` is what the filter, test or method is applied to; undefined for functions.
  Value (*function)(Run& run, const Value& self, Bound& arguments);
  // Names separated by commas; "/" first means by place only; "..." last takes any further ones.
  std::string_view parameters = "";
  int required = 0;
};

// Null when there is none of that name.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindGlobal(std::string_view name);
// A method of the values of this kind. One that would change its value is found too, with no function.
const Builtin* FindMethod(const Value& self, std::string_view name);

// Binds and calls; the undefined value after a failure.
Value CallBuiltin(Run& run, const Builtin& builtin, const Value& self, Arguments arguments);

}  // namespace skein::text::templates
