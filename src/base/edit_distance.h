// SPDX-License-Identifier: Apache-2.0
//
// How far two words are apart, and the nearest of several: "unknown flag --temprature; did you mean --temperature?".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace skein {

// Damerau-Levenshtein distance (optimal string alignment): insertions, removals, replacements and swaps of neighbours,
// each counting one. By bytes.
int EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, or an empty text when even that one is too far to be what was meant (more than a
// third of the word's length, at least 2). A candidate that begins with `word` counts as one step away.
std::string NearestWord(std::string_view word, std::span<const std::string> candidates);

}  // namespace skein
