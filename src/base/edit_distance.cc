// SPDX-License-Identifier: Apache-2.0
#include "base/edit_distance.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace skein {

int EditDistance(std::string_view a, std::string_view b) {
  // Three rows of the usual table: a swap looks two rows back.
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string NearestWord(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kLongestWord = 64;  // the table is quadratic, and nobody means a flag by more
  if (word.empty() || word.size() > kLongestWord) return "";
  int nearest = std::max(2, static_cast<int>(word.size()) / 3) + 1;
  std::string found;
  for (const std::string& candidate : candidates) {
    int distance = EditDistance(word, candidate);
    if (word.size() >= 3 && candidate.starts_with(word)) distance = std::min(distance, 1);
    // A word that shares nothing with a short candidate is not a misspelling of it.
    if (distance >= static_cast<int>(std::max(word.size(), candidate.size()))) continue;
    if (distance < nearest) {
      nearest = distance;
      found = candidate;
    }
  }
  return found;
}

}  // namespace skein
