// SPDX-License-Identifier: Apache-2.0
//
// What the two ways of formatting share: width, precision, sign and type of one value, and writing a number by them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/template_run.h"

namespace skein::text::templates {

struct FormatSpec {
  Text fill = Text(" ", kTrusted);
  char align = 0;       // < > ^ = or 0 for the type's own
  char sign = 0;        // + - or space, 0 when none was given
  bool alternate = false;
  char grouping = 0;    // , or _
  std::uint64_t width = 0;
  std::optional<std::uint64_t> precision;
  char type = 0;
};

// The digits of `number` without sign and padding; `negative` says whether one is due. Fails for a type that a number
// cannot have.
std::string NumberDigits(Run& run, const Value& number, const FormatSpec& spec, bool* negative);
// Sign, digits, padding.
void AppendNumber(TextBuilder& builder, const FormatSpec& spec, std::string_view digits, bool negative, bool trusted);
void AppendPadded(TextBuilder& builder, const FormatSpec& spec, const Text& text, char own_align);
// A decimal number at `*at`, which moves behind it; saturates instead of overflowing.
std::optional<std::uint64_t> ReadCount(std::string_view text, std::size_t* at);

}  // namespace skein::text::templates
