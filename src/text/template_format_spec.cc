// SPDX-License-Identifier: Apache-2.0
//
// Numbers by width, precision and type; see template_format_spec.h.
#include "text/template_format_spec.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "text/template_operators.h"
#include "text/template_print.h"

namespace skein::text::templates {
namespace {

constexpr std::uint64_t kPrecisionMost = 10'000;

std::string InBase(const BigInt& magnitude, char type, bool alternate) {
  std::string digits = magnitude.ToString(type == 'b' ? 2 : type == 'o' ? 8 : 16);
  if (type == 'X') {
    for (char& c : digits) c = c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return alternate ? std::string("0") + type + digits : digits;
}

void Group(std::string& digits, char separator) {
  std::size_t end = 0;
  while (end < digits.size() && digits[end] >= '0' && digits[end] <= '9') ++end;
  for (std::size_t at = end; at > 3;) {
    at -= 3;
    digits.insert(at, 1, separator);
  }
}

std::string FloatDigits(double magnitude, const FormatSpec& spec, int precision) {
  switch (spec.type) {
    case 'f': return spec.alternate ? fmt::format("{:#.{}f}", magnitude, precision) : fmt::format("{:.{}f}", magnitude, precision);
    case 'F': return fmt::format("{:.{}F}", magnitude, precision);
    case 'e': return fmt::format("{:.{}e}", magnitude, precision);
    case 'E': return fmt::format("{:.{}E}", magnitude, precision);
    case 'G': return fmt::format("{:.{}G}", magnitude, std::max(1, precision));
    case '%': return fmt::format("{:.{}f}%", magnitude * 100, precision);
    default: return spec.alternate ? fmt::format("{:#.{}g}", magnitude, std::max(1, precision))
                                   : fmt::format("{:.{}g}", magnitude, std::max(1, precision));
  }
}

}  // namespace

std::string NumberDigits(Run& run, const Value& number, const FormatSpec& spec, bool* negative) {
  if (spec.precision && *spec.precision > kPrecisionMost) {
    run.meter().Limit("precision of a format is too large");
    return "";
  }
  const bool whole = !number.is(Kind::kFloat);
  const std::string_view whole_types("bcdnoxX");
  if (whole && (spec.type == 0 || whole_types.find(spec.type) != std::string_view::npos)) {
    BigInt magnitude = ToBig(number);
    *negative = magnitude.negative();
    if (*negative) magnitude = -magnitude;
    if (spec.type == 'c') {
      std::string character;
      if (*negative || magnitude > BigInt(0x10FFFF)) {
        run.Fail("%c arg not in range(0x110000)");
      } else {
        AppendUtf8(character, static_cast<char32_t>(magnitude.ToInt64().value_or(0)));
      }
      return character;
    }
    const bool decimal = spec.type == 0 || spec.type == 'd' || spec.type == 'n';
    std::string digits = decimal ? BigText(magnitude) : InBase(magnitude, spec.type, spec.alternate);
    if (spec.grouping != 0) Group(digits, spec.grouping);
    return digits;
  }
  constexpr std::string_view kFloatTypes("eEfFgG%n");
  if (spec.type != 0 && kFloatTypes.find(spec.type) == std::string_view::npos) {
    run.Fail(fmt::format("Unknown format code '{}' for object of type '{}'", spec.type, KindName(number)));
    return "";
  }
  const double value = ToDouble(run, number);
  *negative = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::fabs(value);
  std::string digits;
  if (!std::isfinite(magnitude)) {
    digits = std::isnan(magnitude) ? "nan" : "inf";
    if (spec.type == 'F' || spec.type == 'E' || spec.type == 'G') digits = std::isnan(magnitude) ? "NAN" : "INF";
    if (spec.type == '%') digits += "%";
  } else if (spec.type == 0 && !spec.precision) {
    digits = FloatText(magnitude);
  } else {
    const auto precision = static_cast<int>(spec.precision.value_or(6));
    digits = FloatDigits(magnitude, spec, precision);
    if (spec.type == 0 && digits.find_first_of(".e") == std::string::npos) digits += ".0";
  }
  if (spec.grouping != 0) Group(digits, spec.grouping);
  return digits;
}

void AppendNumber(TextBuilder& builder, const FormatSpec& spec, std::string_view digits, bool negative, bool trusted) {
  const std::string sign = negative ? "-" : spec.sign == '-' || spec.sign == 0 ? "" : std::string(1, spec.sign);
  const std::uint64_t length = sign.size() + CountChars(digits);
  const std::uint64_t padding = spec.width > length ? spec.width - length : 0;
  const char align = spec.align == 0 ? '>' : spec.align;
  const std::uint64_t before = align == '>' ? padding : align == '^' ? padding / 2 : 0;
  builder.AppendRepeated(spec.fill, before);
  builder.Append(sign, trusted);
  if (align == '=') builder.AppendRepeated(spec.fill, padding);
  builder.Append(digits, trusted);
  if (align != '=') builder.AppendRepeated(spec.fill, padding - before);
}

void AppendPadded(TextBuilder& builder, const FormatSpec& spec, const Text& text, char own_align) {
  const std::uint64_t length = CountChars(text.view());
  const std::uint64_t padding = spec.width > length ? spec.width - length : 0;
  const char align = spec.align == 0 ? own_align : spec.align;
  const std::uint64_t before = align == '>' ? padding : align == '^' ? padding / 2 : 0;
  builder.AppendRepeated(spec.fill, before);
  builder.Append(text);
  builder.AppendRepeated(spec.fill, padding - before);
}

std::optional<std::uint64_t> ReadCount(std::string_view text, std::size_t* at) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() / 16;
  if (*at >= text.size() || text[*at] < '0' || text[*at] > '9') return std::nullopt;
  std::uint64_t value = 0;
  for (; *at < text.size() && text[*at] >= '0' && text[*at] <= '9'; ++*at) {
    value = std::min(kMost, value * 10 + static_cast<std::uint64_t>(text[*at] - '0'));
  }
  return value;
}

}  // namespace skein::text::templates
