// SPDX-License-Identifier: Apache-2.0
//
// Centring and wrapping; see template_wrap.h. Words: a chunk is what is never broken (a word, a part of one up to a
// hyphen, or the blanks between two words).
#include "text/template_wrap.h"

#include <algorithm>

#include "text/template_strings.h"
#include "text/template_unicode.h"

namespace skein::text::templates {
namespace {

bool IsWrapSpace(char32_t c) { return c == ' ' || (c >= 0x09 && c <= 0x0D); }

struct Char {
  char32_t code;
  std::size_t begin, end;
};

bool IsLetter(const std::vector<Char>& chars, std::size_t at) {
  return at < chars.size() && IsAlpha(chars[at].code);
}

// A hyphen after a letter breaks a word where two letters follow.
bool BreaksAfter(const std::vector<Char>& chars, std::size_t at) {
  if (chars[at].code != '-' || at == 0 || !IsLetter(chars, at - 1)) return false;
  if (at < 2 || IsWrapSpace(chars[at - 2].code)) return false;  // one letter and a hyphen stay together
  return IsLetter(chars, at + 1) && at + 2 < chars.size() && (IsLetter(chars, at + 2) || chars[at + 2].code == '-');
}

struct Chunk {
  std::size_t begin, end;  // places in the list of characters
  bool blank;
  std::int64_t length() const { return static_cast<std::int64_t>(end - begin); }
};

std::vector<Chunk> Chunks(const std::vector<Char>& chars, bool break_on_hyphens) {
  std::vector<Chunk> chunks;
  for (std::size_t at = 0; at < chars.size();) {
    const std::size_t begin = at;
    const bool blank = IsWrapSpace(chars[at].code);
    while (at < chars.size() && IsWrapSpace(chars[at].code) == blank) {
      ++at;
      if (!blank && break_on_hyphens && BreaksAfter(chars, at - 1)) break;
    }
    chunks.push_back({begin, at, blank});
  }
  return chunks;
}

}  // namespace

Text CenterText(Run& run, const Text& text, std::int64_t width, const Text& fill) {
  const auto length = static_cast<std::int64_t>(CountChars(text.view()));
  TextBuilder builder(run.meter());
  const std::int64_t padding = std::max<std::int64_t>(0, width - length);
  const std::int64_t left = padding / 2 + (padding & width & 1);
  builder.AppendRepeated(fill, static_cast<std::uint64_t>(left));
  builder.Append(text);
  builder.AppendRepeated(fill, static_cast<std::uint64_t>(padding - left));
  return builder.Take();
}

std::vector<Text> WrapText(Run& run, const Text& paragraph, const WrapOptions& options) {
  std::vector<Text> lines;
  if (options.width <= 0) {
    run.Fail("invalid width (must be > 0)");
    return lines;
  }
  if (!run.meter().Reserve(paragraph.size() * sizeof(Char))) return lines;
  std::vector<Char> chars;
  for (std::size_t at = 0; at < paragraph.size();) {
    std::size_t length = 0;
    const char32_t c = CharAt(paragraph.view(), at, &length);
    chars.push_back({c, at, at + length});
    at += length;
  }
  std::vector<Chunk> chunks = Chunks(chars, options.break_on_hyphens);
  std::reverse(chunks.begin(), chunks.end());
  while (!chunks.empty() && run.meter().Step()) {
    if (chunks.back().blank && !lines.empty()) chunks.pop_back();
    std::vector<Chunk> line;
    std::int64_t used = 0;
    while (!chunks.empty() && used + chunks.back().length() <= options.width) {
      used += chunks.back().length();
      line.push_back(chunks.back());
      chunks.pop_back();
    }
    if (!chunks.empty() && chunks.back().length() > options.width) {
      if (options.break_long_words) {
        auto cut = static_cast<std::size_t>(options.width - used);
        Chunk& word = chunks.back();
        if (options.break_on_hyphens && word.length() > options.width - used) {
          for (std::size_t i = cut; i-- > 1;) {
            if (chars[word.begin + i].code == '-') {
              const bool only_hyphens = std::all_of(chars.begin() + static_cast<std::ptrdiff_t>(word.begin),
                                                    chars.begin() + static_cast<std::ptrdiff_t>(word.begin + i),
                                                    [](const Char& c) { return c.code == '-'; });
              if (!only_hyphens) cut = i + 1;
              break;
            }
          }
        }
        // Nothing of the word may fit: then an empty piece stands in for the blanks that would be dropped below.
        line.push_back({word.begin, word.begin + cut, cut == 0});
        word.begin += cut;
      } else if (line.empty()) {
        line.push_back(chunks.back());
        chunks.pop_back();
      }
    }
    if (!line.empty() && line.back().blank) line.pop_back();
    if (line.empty()) continue;
    lines.push_back(Slice(run.meter(), paragraph, chars[line.front().begin].begin, chars[line.back().end - 1].end));
  }
  return lines;
}

}  // namespace skein::text::templates
