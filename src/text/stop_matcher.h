// SPDX-License-Identifier: Apache-2.0
//
// StopMatcher watches one sequence's text for stop strings, across the pieces that it comes in. It holds back only
// what could still become a stop string, and cuts exactly in front of the first one to be complete (of two that end
// at the same place, the longer one). How the text is cut into pieces changes nothing. One per sequence, one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skein::text {

class StopMatcher {
 public:
  struct Answer {
    std::string emit;      // text that is certain to be in front of any stop string
    bool stopped = false;
    int stop_index = -1;   // which stop string it was
  };

  // Empty stop strings never match.
  explicit StopMatcher(std::vector<std::string> stops);

  // Requires: not stopped yet.
  Answer Push(std::string_view text);

  // The text is over: what was held back is text after all. Empty after a stop.
  std::string Finish();

 private:
  // States of the automaton are the beginnings of stop strings; the state after some text is the longest beginning
  // that the text ends with (Aho and Corasick, 1975).
  struct State {
    std::vector<std::pair<unsigned char, std::uint32_t>> next;
    std::uint32_t fallback = 0;  // the longest shorter beginning that this one ends with
    std::uint32_t depth = 0;     // bytes
    int stop_index = -1;         // the longest stop string that ends here
    std::uint32_t stop_bytes = 0;
  };

  std::uint32_t Next(std::uint32_t state, unsigned char byte) const;
  static std::uint32_t Child(const State& state, unsigned char byte);

  std::vector<State> states_;
  std::uint32_t state_ = 0;
  std::string held_;  // the last depth bytes of the text, between calls
  bool stopped_ = false;
};

}  // namespace skein::text
