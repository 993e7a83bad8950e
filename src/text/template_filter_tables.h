// SPDX-License-Identifier: Apache-2.0
//
// The tables of built-in filters and methods, one per file that implements them, and helpers that those files share.
#pragma once

#include <span>
#include <string_view>

#include "text/template_builtin.h"
#include "text/template_run.h"

namespace skein::text::templates {

std::span<const Builtin> TextFilters();      // template_filters_text.cc
std::span<const Builtin> MarkupFilters();    // template_filters_markup.cc
std::span<const Builtin> NumberFilters();    // template_filters_number.cc
std::span<const Builtin> SequenceFilters();  // template_filters_sequence.cc
std::span<const Builtin> SelectFilters();    // template_filters_select.cc
std::span<const Builtin> StringMethods();    // template_methods_string.cc
std::span<const Builtin> StringFacts();      // template_methods_string.cc: isalpha and so on

// An argument as an integer; fails when it is something else. `otherwise` when it was not given.
std::int64_t IntegerArgument(Run& run, const Bound& arguments, std::size_t place, std::int64_t otherwise);
// As text, of any value as str() gives it.
Text TextArgument(Run& run, const Bound& arguments, std::size_t place, std::string_view otherwise);
// A string argument; fails when it is something else.
Text StringArgument(Run& run, const Bound& arguments, std::size_t place, std::string_view otherwise);
inline bool TruthArgument(const Bound& arguments, std::size_t place, bool otherwise);

// What a filter's argument `attribute` asks for: one part or several with dots between, an integer for a place.
class AttributePath {
 public:
  // `attribute` may be none or undefined: the item itself.
  AttributePath(Run& run, const Value& attribute, const Value* otherwise = nullptr);
  Value Get(const Value& item) const;

 private:
  Run& run_;
  std::vector<Value> parts_;
  Value otherwise_;
  bool has_otherwise_ = false;
};

// Strings in lower case, other values as they are: how filters compare unless told to mind case.
Value IgnoreCase(Run& run, const Value& value);

const Builtin* FindIn(std::span<const Builtin> table, std::string_view name);

bool Truth(const Value& value);
inline bool TruthArgument(const Bound& arguments, std::size_t place, bool otherwise) {
  return arguments.given[place] ? Truth(arguments.value[place]) : otherwise;
}

}  // namespace skein::text::templates
