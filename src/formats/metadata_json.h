// SPDX-License-Identifier: Apache-2.0
//
// Values of a GGUF file's metadata as JSON, for people and `inspect`.
#pragma once

#include <string>
#include <string_view>

#include "formats/gguf.h"

namespace skein::formats {

// Long arrays become a string that says what they hold.
std::string JsonOf(const GgufValue& value);

// A JSON string; bytes that are no UTF-8 become U+FFFD.
std::string JsonText(std::string_view text);

}  // namespace skein::formats
