// SPDX-License-Identifier: Apache-2.0
//
// ASCII is answered from a table of our own, everything else from utf8proc's two-stage tables.
#include "text/unicode.h"

#include <algorithm>
#include <array>
#include <vector>

#include <utf8proc.h>

namespace skein::text {
namespace {

bool IsContinuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// How a first byte goes on: number of bytes, and the range of the second byte (narrower than 80..BF where a longer
// form, a surrogate or a value past U+10FFFF would begin). Table 3-7 of the Unicode standard.
struct Lead {
  std::uint32_t bytes = 0;
  unsigned char second_first = 0x80;
  unsigned char second_last = 0xBF;
};

Lead LeadOf(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

bool IsWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

CharClass ClassFromTables(char32_t c) {
  if (IsWhiteSpace(c)) return CharClass::kSpace;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return CharClass::kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return CharClass::kPunctuation;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return CharClass::kSymbol;
    default:
      return CharClass::kOther;
  }
}

constexpr CharClass AsciiClass(char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharClass::kLetter;
  if (c >= '0' && c <= '9') return CharClass::kNumber;
  if (c == ' ' || (c >= 0x09 && c <= 0x0D)) return CharClass::kSpace;
  if (c < ' ' || c == 0x7F) return CharClass::kOther;
  for (const char symbol : {'$', '+', '<', '=', '>', '^', '`', '|', '~'}) {
    if (c == symbol) return CharClass::kSymbol;
  }
  return CharClass::kPunctuation;
}

constexpr std::array<CharClass, 128> MakeAsciiClasses() {
  std::array<CharClass, 128> classes{};
  for (std::size_t c = 0; c < 128; ++c) classes[c] = AsciiClass(static_cast<char>(c));
  return classes;
}

constexpr std::array<CharClass, 128> kAsciiClasses = MakeAsciiClasses();

// Canonical decomposition of one code point, appended.
void AppendDecomposed(char32_t c, std::vector<utf8proc_int32_t>& out) {
  if (c < 0xC0) {
    out.push_back(static_cast<utf8proc_int32_t>(c));
    return;
  }
  std::array<utf8proc_int32_t, 32> buffer{};
  int boundary = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), buffer.data(), buffer.size(),
                                             static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &boundary);
  if (count <= 0 || count > static_cast<utf8proc_ssize_t>(buffer.size())) {
    out.push_back(static_cast<utf8proc_int32_t>(c));
    return;
  }
  out.insert(out.end(), buffer.begin(), buffer.begin() + count);
}

std::uint64_t CombiningClass(utf8proc_int32_t c) {
  return static_cast<std::uint64_t>(utf8proc_get_property(c)->combining_class);
}

// Canonical order: each stretch of marks is sorted by combining class, equal ones stay as they are. The keys hold
// class, place and code point, so that plain sorting does it.
void SortMarks(std::vector<utf8proc_int32_t>& points) {
  constexpr int kPointBits = 21;
  std::vector<std::uint64_t> keys;
  for (std::size_t begin = 0; begin < points.size(); ++begin) {
    keys.clear();
    for (std::size_t place = begin; place < points.size(); ++place) {
      const std::uint64_t combining_class = CombiningClass(points[place]);
      if (combining_class == 0) break;
      keys.push_back((combining_class << 56) | ((place - begin) << kPointBits) | static_cast<std::uint64_t>(points[place]));
    }
    std::sort(keys.begin(), keys.end());
    for (const std::uint64_t key : keys) {
      points[begin++] = static_cast<utf8proc_int32_t>(key & ((std::uint64_t{1} << kPointBits) - 1));
    }
  }
}

}  // namespace

Decoded DecodeUtf8(std::string_view text, std::size_t place) {
  const auto byte = [&](std::size_t offset) { return static_cast<unsigned char>(text[place + offset]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, true, false};
  const Lead lead = LeadOf(first);
  if (lead.bytes == 0) return {};
  const std::size_t available = text.size() - place;
  if (available < 2) return {kReplacement, 1, false, true};
  if (byte(1) < lead.second_first || byte(1) > lead.second_last) return {};
  char32_t value = first & (0x7Fu >> lead.bytes);
  value = (value << 6) | (byte(1) & 0x3Fu);
  for (std::uint32_t offset = 2; offset < lead.bytes; ++offset) {
    if (offset >= available) return {kReplacement, offset, false, true};
    if (!IsContinuation(byte(offset))) return {kReplacement, offset, false, false};
    value = (value << 6) | (byte(offset) & 0x3Fu);
  }
  return {value, lead.bytes, true, false};
}

void AppendUtf8(char32_t c, std::string& out) {
  const auto tail = [&](int shift) { out.push_back(static_cast<char>(0x80 | ((c >> shift) & 0x3F))); };
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (c >> 6)));
    tail(0);
  } else if (c < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (c >> 12)));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | (c >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

bool IsValidUtf8(std::string_view text) {
  for (std::size_t place = 0; place < text.size();) {
    if (static_cast<unsigned char>(text[place]) < 0x80) {
      ++place;
      continue;
    }
    const Decoded found = DecodeUtf8(text, place);
    if (!found.valid) return false;
    place += found.bytes;
  }
  return true;
}

std::string RepairUtf8(std::string_view text) {
  std::string repaired;
  repaired.reserve(text.size());
  for (std::size_t place = 0; place < text.size();) {
    const Decoded found = DecodeUtf8(text, place);
    if (found.valid) {
      repaired.append(text.substr(place, found.bytes));
    } else {
      repaired.append(kReplacementUtf8);
    }
    place += found.bytes;
  }
  return repaired;
}

CharClass ClassOf(char32_t c) { return c < 128 ? kAsciiClasses[c] : ClassFromTables(c); }

bool IsWordChar(char32_t c) {
  switch (ClassOf(c)) {
    case CharClass::kLetter:
    case CharClass::kMark:
      return true;
    case CharClass::kNumber: {
      const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
      return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL;
    }
    case CharClass::kPunctuation:
      return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_PC;
    case CharClass::kSymbol:  // circled and squared letters are alphabetic
      return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
             (c >= 0x1F170 && c <= 0x1F189);
    default:
      return c == 0x200C || c == 0x200D;
  }
}

void AppendLowercase(char32_t c, std::string& out) {
  if (c < 128) {
    out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
    return;
  }
  if (c == 0x130) {
    out.append("i\xCC\x87");
    return;
  }
  AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
}

bool StartsRun(char32_t c) {
  if (c < 0x300) return true;
  if (c >= 0x1160 && c <= 0x11FF) return false;  // Hangul vowels and final consonants join what is before
  if (c >= 0xAC00 && c <= 0xD7A3) return true;   // Hangul syllables begin with a consonant
  constexpr std::uint16_t kNoComposition = 0xFFFF;
  constexpr std::uint16_t kComposesAsSecond = 0x8000;
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  if (property->combining_class != 0) return false;
  if (property->comb_index != kNoComposition && (property->comb_index & kComposesAsSecond) != 0) return false;
  // A few decompose into something that joins what is before; those with a decomposition of their own are rare, so
  // none of them is trusted to begin a run.
  return property->decomp_type != 0 || property->decomp_seqindex == 0xFFFF;
}

void AppendNfc(std::u32string_view run, std::string& out) {
  if (run.size() == 1 && StartsRun(run[0])) {  // nothing to decompose or to join
    AppendUtf8(run[0], out);
    return;
  }
  std::vector<utf8proc_int32_t> points;
  points.reserve(run.size() + 4);
  for (const char32_t c : run) AppendDecomposed(c, points);
  SortMarks(points);
  const auto count = utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                                              static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  for (utf8proc_ssize_t place = 0; place < count; ++place) AppendUtf8(static_cast<char32_t>(points[static_cast<std::size_t>(place)]), out);
}

}  // namespace skein::text
