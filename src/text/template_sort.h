// SPDX-License-Identifier: Apache-2.0
//
// A stable merge sort that stands any comparison, also one that contradicts itself (a template's values may) or gives
// up half way (a budget is spent): it moves what it was given and reads nothing else.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace skein::text::templates {

template <typename T, typename Less>
void StableSort(std::vector<T>& items, Less less) {
  std::vector<T> from;
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    from = std::move(items);
    items.clear();
    items.reserve(from.size());
    for (std::size_t begin = 0; begin < from.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, from.size());
      const std::size_t end = std::min(begin + 2 * width, from.size());
      std::size_t left = begin;
      std::size_t right = middle;
      while (left < middle || right < end) {
        const bool take_right = left == middle || (right < end && less(from[right], from[left]));
        items.push_back(std::move(from[take_right ? right++ : left++]));
      }
    }
  }
}

}  // namespace skein::text::templates
