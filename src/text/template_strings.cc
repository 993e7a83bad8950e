// SPDX-License-Identifier: Apache-2.0
//
// Stripping, splitting, replacing and case of Text; see template_strings.h.
#include "text/template_strings.h"

#include <algorithm>
#include <limits>

#include "text/template_unicode.h"

namespace skein::text::templates {
namespace {

bool IsLineEnd(char32_t c) {
  return c == '\n' || c == '\r' || c == 0x0B || c == 0x0C || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool InSet(std::optional<std::string_view> chars, std::string_view text, std::size_t at, std::size_t* length) {
  const char32_t c = CharAt(text, at, length);
  if (!chars) return IsSpace(c);
  for (std::size_t i = 0; i < chars->size(); i += CharLength(*chars, i)) {
    if (chars->substr(i, CharLength(*chars, i)) == text.substr(at, *length)) return true;
  }
  return false;
}

// Maps each character; `map(out, c, at)` appends what it becomes.
template <typename Map>
Text MapChars(Run& run, const Text& text, Map map) {
  TextBuilder builder(run.meter());
  run.meter().Work(text.size());
  std::string mapped;
  for (std::size_t at = 0; at < text.size() && !run.failed();) {
    // One origin at a time, so that plain text is appended in long pieces.
    const std::size_t end = text.RunEnd(at, text.size());
    const bool trusted = text.TrustedAt(at);
    mapped.clear();
    while (at < end) {
      std::size_t length = 0;
      const char32_t c = CharAt(text.view(), at, &length);
      map(mapped, c, at);
      at += length;
    }
    builder.Append(mapped, trusted);
  }
  return builder.Take();
}

// A capital sigma at the end of a word has a form of its own.
bool IsFinalSigma(std::string_view text, std::size_t at) {
  std::size_t length = 0;
  bool cased_before = false;
  for (std::size_t before = at; before > 0;) {
    before = PreviousChar(text, before);
    const char32_t c = CharAt(text, before, &length);
    if (IsCaseIgnorable(c)) continue;
    cased_before = IsCased(c);
    break;
  }
  if (!cased_before) return false;
  for (std::size_t after = at + CharLength(text, at); after < text.size(); after += length) {
    const char32_t c = CharAt(text, after, &length);
    if (!IsCaseIgnorable(c)) return !IsCased(c);
  }
  return true;
}

void LowerAt(std::string& out, char32_t c, std::string_view text, std::size_t at) {
  constexpr char32_t kCapitalSigma = 0x3A3;
  if (c == kCapitalSigma) return AppendUtf8(out, IsFinalSigma(text, at) ? 0x3C2 : 0x3C3);
  AppendLower(out, c);
}

std::vector<Text> SplitOnSpace(Run& run, const Text& text, std::int64_t most, bool from_right) {
  // The words as byte ranges, from the side where splitting begins.
  const std::string_view s = text.view();
  std::vector<Text> parts;
  std::size_t length = 0;
  const auto skip_right = [&](std::size_t at) {
    while (at < s.size() && IsSpace(CharAt(s, at, &length))) at += length;
    return at;
  };
  const auto skip_left = [&](std::size_t at) {
    while (at > 0 && IsSpace(CharAt(s, PreviousChar(s, at), &length))) at = PreviousChar(s, at);
    return at;
  };
  if (!from_right) {
    for (std::size_t at = skip_right(0); at < s.size() && run.meter().Step();) {
      if (most-- == 0) {
        parts.push_back(Slice(run.meter(), text, at, s.size()));
        break;
      }
      std::size_t end = at;
      while (end < s.size() && !IsSpace(CharAt(s, end, &length))) end += length;
      parts.push_back(Slice(run.meter(), text, at, end));
      at = skip_right(end);
    }
    return parts;
  }
  for (std::size_t end = skip_left(s.size()); end > 0 && run.meter().Step();) {
    if (most-- == 0) {
      parts.push_back(Slice(run.meter(), text, 0, end));
      break;
    }
    std::size_t begin = end;
    while (begin > 0 && !IsSpace(CharAt(s, PreviousChar(s, begin), &length))) begin = PreviousChar(s, begin);
    parts.push_back(Slice(run.meter(), text, begin, end));
    end = skip_left(begin);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

Text Slice(Meter& meter, const Text& text, std::size_t begin, std::size_t end) {
  TextBuilder builder(meter);
  builder.Append(text, begin, end);
  return builder.Take();
}

Text Strip(Meter& meter, const Text& text, std::optional<std::string_view> chars, bool left, bool right) {
  const std::string_view s = text.view();
  std::size_t begin = 0;
  std::size_t end = s.size();
  std::size_t length = 0;
  while (left && begin < end && InSet(chars, s, begin, &length)) begin += length;
  while (right && end > begin) {
    const std::size_t last = PreviousChar(s, end);
    if (!InSet(chars, s, last, &length)) break;
    end = last;
  }
  return Slice(meter, text, begin, end);
}

std::vector<Text> Split(Run& run, const Text& text, std::optional<std::string_view> separator, std::int64_t most,
                        bool from_right) {
  run.meter().Work(text.size());
  if (!separator) return SplitOnSpace(run, text, most, from_right);
  std::vector<Text> parts;
  if (separator->empty()) {
    run.Fail("empty separator");
    return parts;
  }
  const std::string_view s = text.view();
  if (!from_right) {
    std::size_t at = 0;
    while (most-- != 0 && run.meter().Step()) {
      const std::size_t found = s.find(*separator, at);
      if (found == std::string_view::npos) break;
      parts.push_back(Slice(run.meter(), text, at, found));
      at = found + separator->size();
    }
    parts.push_back(Slice(run.meter(), text, at, s.size()));
    return parts;
  }
  std::size_t end = s.size();
  while (most-- != 0 && end >= separator->size() && run.meter().Step()) {
    const std::size_t found = s.rfind(*separator, end - separator->size());
    if (found == std::string_view::npos) break;
    parts.push_back(Slice(run.meter(), text, found + separator->size(), end));
    end = found;
  }
  parts.push_back(Slice(run.meter(), text, 0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> SplitLines(Run& run, const Text& text, bool keep_ends) {
  std::vector<Text> lines;
  const std::string_view s = text.view();
  run.meter().Work(s.size());
  std::size_t begin = 0;
  for (std::size_t at = 0; at < s.size() && !run.failed();) {
    std::size_t length = 0;
    const char32_t c = CharAt(s, at, &length);
    if (!IsLineEnd(c)) {
      at += length;
      continue;
    }
    const std::size_t line_end = at;
    at += c == '\r' && at + 1 < s.size() && s[at + 1] == '\n' ? 2 : length;
    lines.push_back(Slice(run.meter(), text, begin, keep_ends ? at : line_end));
    run.meter().Step();
    begin = at;
  }
  if (begin < s.size()) lines.push_back(Slice(run.meter(), text, begin, s.size()));
  return lines;
}

Text Replace(Run& run, const Text& text, const Text& old, const Text& with, std::int64_t most) {
  TextBuilder builder(run.meter());
  const std::string_view s = text.view();
  run.meter().Work(s.size());
  if (most < 0) most = std::numeric_limits<std::int64_t>::max();
  std::size_t at = 0;
  if (old.empty()) {  // before every character, and at the end
    for (; most > 0 && run.meter().Step(); --most) {
      builder.Append(with);
      if (at >= s.size()) break;
      const std::size_t end = at + CharLength(s, at);
      builder.Append(text, at, end);
      at = end;
    }
    builder.Append(text, at, s.size());
    return builder.Take();
  }
  for (; most > 0 && run.meter().Step(); --most) {
    const std::size_t found = s.find(old.view(), at);
    if (found == std::string_view::npos) break;
    builder.Append(text, at, found);
    builder.Append(with);
    at = found + old.size();
  }
  builder.Append(text, at, s.size());
  return builder.Take();
}

Text Lower(Run& run, const Text& text) {
  return MapChars(run, text, [&](std::string& out, char32_t c, std::size_t at) { LowerAt(out, c, text.view(), at); });
}

Text Upper(Run& run, const Text& text) {
  return MapChars(run, text, [](std::string& out, char32_t c, std::size_t) { AppendUpper(out, c); });
}

Text CaseFold(Run& run, const Text& text) {
  return MapChars(run, text, [](std::string& out, char32_t c, std::size_t) { AppendFolded(out, c); });
}

Text SwapCase(Run& run, const Text& text) {
  return MapChars(run, text, [&](std::string& out, char32_t c, std::size_t at) {
    if (IsUpper(c)) {
      LowerAt(out, c, text.view(), at);
    } else if (IsLower(c)) {
      AppendUpper(out, c);
    } else {
      AppendUtf8(out, c);
    }
  });
}

Text Capitalize(Run& run, const Text& text) {
  return MapChars(run, text, [&](std::string& out, char32_t c, std::size_t at) {
    if (at == 0) {
      AppendTitle(out, c);
    } else {
      LowerAt(out, c, text.view(), at);
    }
  });
}

Text TitleCase(Run& run, const Text& text) {
  bool cased_before = false;
  return MapChars(run, text, [&](std::string& out, char32_t c, std::size_t at) {
    if (cased_before) {
      LowerAt(out, c, text.view(), at);
    } else {
      AppendTitle(out, c);
    }
    cased_before = IsCased(c);
  });
}

Text TitleWords(Run& run, const Text& text) {
  bool begins = true;
  std::size_t rest = 0;  // of the word, after its first character
  return MapChars(run, text, [&](std::string& out, char32_t c, std::size_t at) {
    const bool separates = IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (separates) {
      AppendUtf8(out, c);
    } else if (begins) {
      AppendUpper(out, c);
      rest = at + CharLength(text.view(), at);
    } else {
      LowerAt(out, c, text.view().substr(rest), at - rest);
    }
    begins = separates;
  });
}

Value StringList(Run& run, std::vector<Text> parts, bool markup) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (Text& part : parts) items.push_back(run.String(std::move(part), markup));
  return run.List(std::move(items));
}

bool IsLowerText(std::string_view text) {
  bool cased = false;
  const bool rest = AllChars(text, [&](char32_t c) {
    cased = cased || IsLower(c);
    return !IsUpper(c) && !IsTitle(c);
  });
  return rest && cased;
}

bool IsUpperText(std::string_view text) {
  bool cased = false;
  const bool rest = AllChars(text, [&](char32_t c) {
    cased = cased || IsUpper(c);
    return !IsLower(c) && !IsTitle(c);
  });
  return rest && cased;
}

bool IsTitleText(std::string_view text) {
  bool cased = false;
  bool cased_before = false;
  const bool rest = AllChars(text, [&](char32_t c) {
    const bool upper = IsUpper(c) || IsTitle(c);
    if (upper && cased_before) return false;
    if (IsLower(c) && !cased_before) return false;
    cased_before = IsCased(c);
    cased = cased || cased_before;
    return true;
  });
  return rest && cased;
}

}  // namespace skein::text::templates
