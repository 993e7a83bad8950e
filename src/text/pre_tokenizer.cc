// SPDX-License-Identifier: Apache-2.0
//
// The scanners. All are built of the same few moves: a run of one class, an optional character in front of a run, and
// the rules for white space that nearly all patterns share.
#include "text/pre_tokenizer.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace skein::text {
namespace {

using Ends = std::vector<std::uint32_t>;

// What a scanner sees: a stretch of the text that behaves as if it were all there is.
struct Stretch {
  const CodePoints& text;
  std::uint32_t end;

  char32_t At(std::uint32_t place) const { return place < end ? text.points[place] : 0; }
  CharClass ClassAt(std::uint32_t place) const { return text.classes[place]; }
  bool Is(std::uint32_t place, CharClass wanted) const { return place < end && text.classes[place] == wanted; }

  // The end of the run of characters from `place` for which `wanted` is true.
  template <typename Wanted>
  std::uint32_t Run(std::uint32_t place, const Wanted& wanted) const {
    while (place < end && wanted(place)) ++place;
    return place;
  }
  std::uint32_t RunOf(std::uint32_t place, CharClass wanted) const {
    return Run(place, [&](std::uint32_t at) { return text.classes[at] == wanted; });
  }
  std::uint32_t RunOfBreaks(std::uint32_t place) const {
    return Run(place, [&](std::uint32_t at) { return IsBreak(text.points[at]); });
  }

  static bool IsBreak(char32_t c) { return c == '\n' || c == '\r'; }
};

bool IsLetterNumberOrSpace(CharClass c) {
  return c == CharClass::kLetter || c == CharClass::kNumber || c == CharClass::kSpace;
}

char32_t Fold(char32_t c) {
  if (c >= 'A' && c <= 'Z') return c + 32;
  return c == 0x17F ? U's' : c;  // the long s folds to s
}

// 's|'t|'re|'ve|'m|'ll|'d at an apostrophe; the end, or `place` when there is none.
template <bool kAnyCase>
std::uint32_t Contraction(const Stretch& text, std::uint32_t place) {
  if (text.At(place) != '\'') return place;
  const auto letter = [&](std::uint32_t at) { return kAnyCase ? Fold(text.At(at)) : text.At(at); };
  const char32_t first = letter(place + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return place + 2;
  const char32_t second = letter(place + 2);
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return place + 3;
  return place;
}

// \s+(?!\S)|\s+ : white space, less its last character when something follows that wants it.
std::uint32_t Spaces(const Stretch& text, std::uint32_t place) {
  const std::uint32_t end = text.RunOf(place, CharClass::kSpace);
  return end == text.end || end - place == 1 ? end : end - 1;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last line break of the white space, or as above.
std::uint32_t SpacesAndBreaks(const Stretch& text, std::uint32_t place) {
  const std::uint32_t end = text.RunOf(place, CharClass::kSpace);
  for (std::uint32_t last = end; last > place; --last) {
    if (Stretch::IsBreak(text.At(last - 1))) return last;
  }
  return end == text.end || end - place == 1 ? end : end - 1;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
void Gpt2(const CodePoints& points, std::uint32_t begin, std::uint32_t end, Ends& ends) {
  const Stretch text{points, end};
  for (std::uint32_t place = begin; place < end; ends.push_back(place)) {
    if (const std::uint32_t after = Contraction<false>(text, place); after != place) {
      place = after;
      continue;
    }
    const std::uint32_t start = place + (text.At(place) == ' ' ? 1 : 0);
    if (start == end || text.ClassAt(start) == CharClass::kSpace) {
      place = Spaces(text, place);
    } else if (text.ClassAt(start) == CharClass::kLetter || text.ClassAt(start) == CharClass::kNumber) {
      place = text.RunOf(start, text.ClassAt(start));
    } else {
      place = text.Run(start, [&](std::uint32_t at) { return !IsLetterNumberOrSpace(text.ClassAt(at)); });
    }
  }
}

// \p{N}, each alone; then GPT-2's pattern within what is between.
void Smollm(const CodePoints& points, std::uint32_t begin, std::uint32_t end, Ends& ends) {
  for (std::uint32_t place = begin; place < end;) {
    std::uint32_t stop = place;
    while (stop < end && points.classes[stop] != CharClass::kNumber) ++stop;
    if (stop > place) Gpt2(points, place, stop, ends);
    if (stop < end) ends.push_back(++stop);
    place = stop;
  }
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// with the most digits in a group as a parameter.
template <std::uint32_t kDigitsMax>
void NumbersInGroups(const CodePoints& points, std::uint32_t begin, std::uint32_t end, Ends& ends) {
  const Stretch text{points, end};
  for (std::uint32_t place = begin; place < end; ends.push_back(place)) {
    if (const std::uint32_t after = Contraction<true>(text, place); after != place) {
      place = after;
      continue;
    }
    const CharClass first = text.ClassAt(place);
    if (first == CharClass::kLetter) {
      place = text.RunOf(place, CharClass::kLetter);
      continue;
    }
    if (first == CharClass::kNumber) {
      const Stretch group{points, std::min(end, place + kDigitsMax)};
      place = group.RunOf(place, CharClass::kNumber);
      continue;
    }
    if (!Stretch::IsBreak(text.At(place)) && text.Is(place + 1, CharClass::kLetter)) {
      place = text.RunOf(place + 1, CharClass::kLetter);
      continue;
    }
    const std::uint32_t start = place + (text.At(place) == ' ' ? 1 : 0);
    if (start < end && !IsLetterNumberOrSpace(text.ClassAt(start))) {
      place = text.Run(start, [&](std::uint32_t at) { return !IsLetterNumberOrSpace(text.ClassAt(at)); });
      place = text.RunOfBreaks(place);
    } else {
      place = SpacesAndBreaks(text, place);
    }
  }
}

bool IsAsciiLetter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsAsciiPunctuation(char32_t c) {
  return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) || (c >= 0x7B && c <= 0x7E);
}
bool IsLetterOrMark(CharClass c) { return c == CharClass::kLetter || c == CharClass::kMark; }
bool IsPunctuationOrSymbol(CharClass c) { return c == CharClass::kPunctuation || c == CharClass::kSymbol; }

// The third pattern of DeepSeek-V3:
// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
// The end of its match at `place`, or `place` when there is none (digits, control and unassigned characters).
std::uint32_t DeepSeekWord(const Stretch& text, std::uint32_t place) {
  const CharClass first = text.ClassAt(place);
  const auto letters = [&](std::uint32_t from) {
    return text.Run(from, [&](std::uint32_t at) { return IsLetterOrMark(text.ClassAt(at)); });
  };
  if (IsAsciiPunctuation(text.At(place)) && IsAsciiLetter(text.At(place + 1))) {
    return text.Run(place + 1, [&](std::uint32_t at) { return IsAsciiLetter(text.At(at)); });
  }
  if (IsLetterOrMark(first)) return letters(place);
  const bool may_lead = !Stretch::IsBreak(text.At(place)) && !IsPunctuationOrSymbol(first);
  if (may_lead && place + 1 < text.end && IsLetterOrMark(text.ClassAt(place + 1))) return letters(place + 1);
  const std::uint32_t start = place + (text.At(place) == ' ' ? 1 : 0);
  if (start < text.end && IsPunctuationOrSymbol(text.ClassAt(start))) {
    return text.RunOfBreaks(text.Run(start, [&](std::uint32_t at) { return IsPunctuationOrSymbol(text.ClassAt(at)); }));
  }
  return first == CharClass::kSpace ? SpacesAndBreaks(text, place) : place;
}

void DeepSeekWords(const CodePoints& points, std::uint32_t begin, std::uint32_t end, Ends& ends) {
  const Stretch text{points, end};
  for (std::uint32_t place = begin; place < end;) {
    const std::uint32_t after = DeepSeekWord(text, place);
    if (after != place) {
      place = after;
    } else {  // what the pattern leaves out stays together up to its next match
      do ++place;
      while (place < end && DeepSeekWord(text, place) == place);
    }
    ends.push_back(place);
  }
}

// \p{N}{1,3}, then [一-龥぀-ゟ゠-ヿ]+, then the pattern above within what is between and within the parts.
void DeepSeekV3(const CodePoints& points, std::uint32_t begin, std::uint32_t end, Ends& ends) {
  const auto is_number = [&](std::uint32_t at) { return points.classes[at] == CharClass::kNumber; };
  const auto is_east_asian = [&](std::uint32_t at) {
    const char32_t c = points.points[at];
    return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
  };
  for (std::uint32_t place = begin; place < end;) {
    std::uint32_t stop = place + 1;
    if (is_number(place)) {
      while (stop < end && stop < place + 3 && is_number(stop)) ++stop;
      ends.push_back(stop);
    } else {
      const bool east_asian = is_east_asian(place);
      while (stop < end && !is_number(stop) && is_east_asian(stop) == east_asian) ++stop;
      DeepSeekWords(points, place, stop, ends);
    }
    place = stop;
  }
}

// [0-9][0-9][0-9], the rest between left as it is.
void ThreeDigits(const CodePoints& points, std::uint32_t begin, std::uint32_t end, Ends& ends) {
  const auto is_digit = [&](std::uint32_t at) { return points.points[at] >= '0' && points.points[at] <= '9'; };
  std::uint32_t open = begin;
  for (std::uint32_t place = begin; place < end;) {
    if (place + 3 <= end && is_digit(place) && is_digit(place + 1) && is_digit(place + 2)) {
      if (open < place) ends.push_back(place);
      ends.push_back(place += 3);
      open = place;
    } else {
      ++place;
    }
  }
  if (open < end) ends.push_back(end);
}

// Four cuts, one within the other: runs of punctuation, GPT-2's pattern, runs of digits, threes of digits. The third
// comes after bytes were spelled as letters, so it knows ASCII digits only (and six bytes inside other characters, at
// which no vocabulary trained this way has a merge).
void Falcon(const CodePoints& points, std::uint32_t begin, std::uint32_t end, Ends& ends) {
  const auto is_punctuation = [&](std::uint32_t at) {
    return points.classes[at] == CharClass::kPunctuation || IsAsciiPunctuation(points.points[at]);
  };
  const auto is_digit = [&](std::uint32_t at) { return points.points[at] >= '0' && points.points[at] <= '9'; };
  Ends words;
  for (std::uint32_t place = begin; place < end;) {
    std::uint32_t stop = place + 1;
    while (stop < end && is_punctuation(stop) == is_punctuation(place)) ++stop;
    words.clear();
    Gpt2(points, place, stop, words);
    for (const std::uint32_t word_end : words) {
      while (place < word_end) {
        std::uint32_t part = place + 1;
        while (part < word_end && is_digit(part) == is_digit(place)) ++part;
        ThreeDigits(points, place, part, ends);
        place = part;
      }
    }
  }
}

struct Entry {
  std::string_view name;
  PreTokenizer scan;
};

constexpr std::array<Entry, 6> kRegistry = {{
    {"deepseek-v3", DeepSeekV3},
    {"falcon", Falcon},
    {"gpt-2", Gpt2},
    {"llama-bpe", NumbersInGroups<3>},
    {"qwen2", NumbersInGroups<1>},
    {"smollm", Smollm},
}};

}  // namespace

void CodePoints::Assign(std::string_view text) {
  SKEIN_CHECK(text.size() < 0xFFFFFFFFu);
  points.clear();
  classes.clear();
  offsets.clear();
  points.reserve(text.size());
  classes.reserve(text.size());
  offsets.reserve(text.size() + 1);
  for (std::size_t place = 0; place < text.size();) {
    const unsigned char byte = static_cast<unsigned char>(text[place]);
    const Decoded found = byte < 0x80 ? Decoded{byte, 1, true, false} : DecodeUtf8(text, place);
    points.push_back(found.code_point);
    classes.push_back(ClassOf(found.code_point));
    offsets.push_back(static_cast<std::uint32_t>(place));
    place += found.bytes;
  }
  offsets.push_back(static_cast<std::uint32_t>(text.size()));
}

PreTokenizer FindPreTokenizer(std::string_view name) {
  for (const Entry& entry : kRegistry) {
    if (entry.name == name) return entry.scan;
  }
  return nullptr;
}

std::vector<std::string_view> PreTokenizerNames() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kRegistry) names.push_back(entry.name);
  return names;
}

}  // namespace skein::text
