// SPDX-License-Identifier: Apache-2.0
//
// Pre-tokenizers cut a text into words before merging: no token crosses a word's border. Models publish them as
// patterns; ours are scanners written by hand, each with its pattern above it, found by name in one sorted list.
// Linear in the text's length for any text. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace skein::text {

// A stretch of text as code points and their classes; the scanners walk over it.
struct CodePoints {
  std::vector<char32_t> points;
  std::vector<CharClass> classes;
  std::vector<std::uint32_t> offsets;  // of each point's first byte; one more at the end

  // Requires: valid UTF-8 of less than 4 GiB.
  void Assign(std::string_view text);
  std::uint32_t size() const { return static_cast<std::uint32_t>(points.size()); }
};

// Appends the ends of the words of [begin, end), in code points: the last one is `end`, none is empty.
using PreTokenizer = void (*)(const CodePoints& text, std::uint32_t begin, std::uint32_t end, std::vector<std::uint32_t>& ends);

// nullptr for a name that is not in the registry.
PreTokenizer FindPreTokenizer(std::string_view name);

// The registry's names, sorted.
std::vector<std::string_view> PreTokenizerNames();

}  // namespace skein::text
