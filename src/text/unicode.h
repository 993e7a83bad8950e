// SPDX-License-Identifier: Apache-2.0
//
// What the tokenizers need to know of Unicode: UTF-8 to code points and back, the class of a code point as the
// patterns of pre-tokenizers mean it, repair of malformed text, and NFC. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace skein::text {

inline constexpr char32_t kReplacement = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

struct Decoded {
  char32_t code_point = kReplacement;
  std::uint32_t bytes = 1;  // of the character, or of the maximal malformed part
  bool valid = false;
  bool truncated = false;  // malformed only because the text ends here
};

// The character at `place`. Malformed bytes are cut as the Unicode standard recommends (3.9, "maximal subpart").
// Requires: place < text.size().
Decoded DecodeUtf8(std::string_view text, std::size_t place);

void AppendUtf8(char32_t code_point, std::string& out);

bool IsValidUtf8(std::string_view text);

// `text` with every maximal malformed part as U+FFFD.
std::string RepairUtf8(std::string_view text);

// General categories, as far as patterns tell them apart. White space is the property White_Space, which is \s.
enum class CharClass : std::uint8_t { kOther, kLetter, kMark, kNumber, kPunctuation, kSymbol, kSpace };

CharClass ClassOf(char32_t code_point);

// \w: letters, marks, decimal and letter numbers, connecting punctuation, joiners.
bool IsWordChar(char32_t code_point);

// The lower case of one code point, appended as UTF-8 (U+0130 has two).
void AppendLowercase(char32_t code_point, std::string& out);

// True when a normalised text may be cut in front of `code_point` and both parts stay what they were: it starts a new
// run of composition. Used to normalise run by run.
bool StartsRun(char32_t code_point);

// NFC of one run, appended to `out`. O(n log n) for any sequence of combining marks.
void AppendNfc(std::u32string_view run, std::string& out);

}  // namespace skein::text
