// SPDX-License-Identifier: Apache-2.0
//
// What Unicode says of a character, and case maps, as Python's str answers them (isalpha, lower, title, repr's choice
// of escapes). The tables are made by tools/make_template_unicode.py. Pure functions.
#pragma once

#include <string>

namespace skein::text::templates {

bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsDigit(char32_t c);
bool IsNumeric(char32_t c);
bool IsLower(char32_t c);
bool IsUpper(char32_t c);
bool IsTitle(char32_t c);      // a titlecase letter that is not an uppercase one
bool IsPrintable(char32_t c);
bool IsSpace(char32_t c);
bool IsCaseIgnorable(char32_t c);
bool IsNameStart(char32_t c);  // may begin an identifier
bool IsNameRest(char32_t c);
inline bool IsCased(char32_t c) { return IsLower(c) || IsUpper(c) || IsTitle(c); }
inline bool IsAlnum(char32_t c) { return IsAlpha(c) || IsDecimal(c) || IsDigit(c) || IsNumeric(c); }

// A character mapped: one to three characters, appended to `out` as UTF-8.
void AppendLower(std::string& out, char32_t c);
void AppendUpper(std::string& out, char32_t c);
void AppendTitle(std::string& out, char32_t c);
void AppendFolded(std::string& out, char32_t c);

}  // namespace skein::text::templates
