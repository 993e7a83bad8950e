// SPDX-License-Identifier: Apache-2.0
//
// Values as text: str() and repr() as Python prints them, JSON as its json module writes it, HTML escapes. Characters
// of strings keep their origin; brackets, quotes and numbers that came from outside are untrusted.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/template_run.h"

namespace skein::text::templates {

Text ToText(Run& run, const Value& value);  // str(value)
Text Repr(Run& run, const Value& value);    // repr(value)
// The characters of `text` within quotes, escaped as repr does.
void AppendQuoted(TextBuilder& builder, const Text& text);

std::string FloatText(double value);        // repr of a float
std::string BigText(const BigInt& value);

struct JsonOptions {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Text> indent;                 // the blanks of one level
  std::optional<Text> item_separator, key_separator;
};
Text ToJson(Run& run, const Value& value, const JsonOptions& options);

// & < > ' " as HTML writes them.
void AppendEscapedHtml(TextBuilder& builder, const Text& text);
// The value as markup: escaped, unless it is markup already.
Value EscapeHtml(Run& run, const Value& value);

}  // namespace skein::text::templates
