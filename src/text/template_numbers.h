// SPDX-License-Identifier: Apache-2.0
//
// Numbers read from text as Python's int() and float() do: blanks around, underscores between digits. Pure functions.
#pragma once

#include <optional>
#include <string_view>

#include "text/template_value.h"

namespace skein::text::templates {

// Base 2 to 36, or 0: what the prefix says.
std::optional<BigInt> ParseInteger(std::string_view text, std::int64_t base);
std::optional<double> ParseFloat(std::string_view text);

}  // namespace skein::text::templates
