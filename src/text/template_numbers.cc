// SPDX-License-Identifier: Apache-2.0
//
// Reading numbers; see template_numbers.h.
#include "text/template_numbers.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <string>

#include "text/template_unicode.h"

namespace skein::text::templates {
namespace {

std::string_view WithoutBlanks(std::string_view text) {
  std::size_t length = 0;
  while (!text.empty() && IsSpace(CharAt(text, 0, &length))) text.remove_prefix(length);
  while (!text.empty()) {
    const std::size_t last = PreviousChar(text, text.size());
    if (!IsSpace(CharAt(text, last, &length))) break;
    text = text.substr(0, last);
  }
  return text;
}

int DigitValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

// The base that a prefix names, or 0.
int PrefixBase(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  switch (text[1] | 0x20) {
    case 'x': return 16;
    case 'o': return 8;
    case 'b': return 2;
    default: return 0;
  }
}

}  // namespace

std::optional<BigInt> ParseInteger(std::string_view text, std::int64_t base) {
  constexpr std::size_t kDigitsMost = 4300;
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  text = WithoutBlanks(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const int prefix = PrefixBase(text);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
    base = prefix;
  } else if (base == 0) {
    base = 10;
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != std::string_view::npos) return std::nullopt;
  }
  if (text.empty() || text.size() > kDigitsMost) return std::nullopt;
  std::string digits;
  bool digit_before = false;
  for (char c : text) {
    if (c == '_') {
      if (!digit_before) return std::nullopt;
      digit_before = false;
      continue;
    }
    if (DigitValue(c) >= base) return std::nullopt;
    digits.push_back(c);
    digit_before = true;
  }
  if (!digit_before) return std::nullopt;
  const BigInt value = BigInt::FromDigits(digits, static_cast<unsigned>(base));
  return negative ? -value : value;
}

std::optional<double> ParseFloat(std::string_view text) {
  text = WithoutBlanks(text);
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      plain.push_back(text[i]);
      continue;
    }
    const bool between = i > 0 && i + 1 < text.size() && DigitValue(text[i - 1]) < 10 && DigitValue(text[i + 1]) < 10;
    if (!between) return std::nullopt;
  }
  std::string_view rest = plain;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty() || rest[0] == '-' || rest[0] == '+') return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (end != rest.data() + rest.size() || rest.back() == ')') return std::nullopt;  // nan(…) is not Python's
  if (error == std::errc::result_out_of_range) {
    // Too large is infinity, too small is zero; which one, the C library says.
    value = std::strtod(std::string(rest).c_str(), nullptr);
  } else if (error != std::errc()) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

}  // namespace skein::text::templates
