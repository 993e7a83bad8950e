// SPDX-License-Identifier: Apache-2.0
//
// Operations on Text that filters and methods share: stripping, splitting, replacing, case. All keep each
// character's origin; a character made from another (an upper case letter) has the origin of that one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/template_run.h"

namespace skein::text::templates {

Text Slice(Meter& meter, const Text& text, std::size_t begin, std::size_t end);

// Without the characters of `chars` (white space when nothing is given) at the ends that are asked for.
Text Strip(Meter& meter, const Text& text, std::optional<std::string_view> chars, bool left, bool right);

// At most `most` splits (all when negative). An absent separator is any white space. `from_right` counts from the end.
std::vector<Text> Split(Run& run, const Text& text, std::optional<std::string_view> separator, std::int64_t most,
                        bool from_right);
std::vector<Text> SplitLines(Run& run, const Text& text, bool keep_ends);
Text Replace(Run& run, const Text& text, const Text& old, const Text& with, std::int64_t most);

Text Lower(Run& run, const Text& text);
Text Upper(Run& run, const Text& text);
Text CaseFold(Run& run, const Text& text);
Text SwapCase(Run& run, const Text& text);
Text Capitalize(Run& run, const Text& text);
Text TitleCase(Run& run, const Text& text);    // str.title
Text TitleWords(Run& run, const Text& text);   // the filter `title`: words begin after blanks, -, and opening brackets

// A list of strings.
Value StringList(Run& run, std::vector<Text> parts, bool markup = false);

// True when every character passes, and there is one.
template <typename Test>
bool AllChars(std::string_view text, Test test) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    if (!test(CharAt(text, at, &length))) return false;
    at += length;
  }
  return !text.empty();
}
bool IsLowerText(std::string_view text);
bool IsUpperText(std::string_view text);
bool IsTitleText(std::string_view text);

}  // namespace skein::text::templates
