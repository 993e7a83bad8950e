// SPDX-License-Identifier: Apache-2.0
//
// Look-ups in the tables of template_unicode_tables.inc; see template_unicode.h.
#include "text/template_unicode.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>

#include "text/template_text.h"

namespace skein::text::templates {
namespace {

struct CharRange {
  std::uint32_t first;
  std::uint32_t last;
};
struct CaseRun {  // every `stride`-th character from first to last moves by delta
  std::uint32_t first;
  std::uint32_t last;
  std::uint32_t stride;
  std::int32_t delta;
};
struct CaseSpecial {
  std::uint32_t from;
  std::uint32_t first, second, third;  // 0 from where it ends
};

#include "text/template_unicode_tables.inc"

bool InRanges(std::span<const CharRange> ranges, char32_t c) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), c,
                                      [](char32_t at, const CharRange& r) { return at < r.first; });
  return after != ranges.begin() && c <= std::prev(after)->last;
}

// Appends the mapping of c and says so, or leaves `out` alone.
bool AppendMapped(std::string& out, char32_t c, std::span<const CaseRun> runs, std::span<const CaseSpecial> special) {
  const auto exact = std::lower_bound(special.begin(), special.end(), c,
                                      [](const CaseSpecial& s, char32_t at) { return s.from < at; });
  if (exact != special.end() && exact->from == c) {
    for (const std::uint32_t mapped : {exact->first, exact->second, exact->third}) {
      if (mapped != 0) AppendUtf8(out, mapped);
    }
    return true;
  }
  // Runs may interleave (a run of every second character), so look at a few that start before c.
  auto run = std::upper_bound(runs.begin(), runs.end(), c, [](char32_t at, const CaseRun& r) { return at < r.first; });
  for (int looked = 0; run != runs.begin() && looked < 4; ++looked) {
    --run;
    if (c <= run->last && (c - run->first) % run->stride == 0) {
      AppendUtf8(out, static_cast<char32_t>(static_cast<std::int32_t>(c) + run->delta));
      return true;
    }
  }
  return false;
}

}  // namespace

bool IsAlpha(char32_t c) { return InRanges(kAlpha, c); }
bool IsDecimal(char32_t c) { return InRanges(kDecimal, c); }
bool IsDigit(char32_t c) { return InRanges(kDigit, c); }
bool IsNumeric(char32_t c) { return InRanges(kNumeric, c); }
bool IsLower(char32_t c) { return InRanges(kLower, c); }
bool IsUpper(char32_t c) { return InRanges(kUpper, c); }
bool IsTitle(char32_t c) { return InRanges(kTitle, c); }
bool IsPrintable(char32_t c) { return InRanges(kPrintable, c); }
bool IsSpace(char32_t c) { return InRanges(kSpace, c); }
bool IsCaseIgnorable(char32_t c) { return InRanges(kIgnorable, c); }
bool IsNameStart(char32_t c) { return InRanges(kNameStart, c); }
bool IsNameRest(char32_t c) { return InRanges(kNameRest, c); }

void AppendLower(std::string& out, char32_t c) {
  if (!AppendMapped(out, c, kLowerRuns, kLowerSpecial)) AppendUtf8(out, c);
}
void AppendUpper(std::string& out, char32_t c) {
  if (!AppendMapped(out, c, kUpperRuns, kUpperSpecial)) AppendUtf8(out, c);
}
void AppendTitle(std::string& out, char32_t c) {
  if (!AppendMapped(out, c, kTitleCaseRuns, kTitleCaseSpecial)) AppendUpper(out, c);
}
void AppendFolded(std::string& out, char32_t c) {
  if (!AppendMapped(out, c, kFoldRuns, kFoldSpecial)) AppendLower(out, c);
}

}  // namespace skein::text::templates
