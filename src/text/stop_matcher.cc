// SPDX-License-Identifier: Apache-2.0
#include "text/stop_matcher.h"

#include <utility>

#include "base/check.h"

namespace skein::text {

StopMatcher::StopMatcher(std::vector<std::string> stops) : states_(1) {
  for (std::size_t index = 0; index < stops.size(); ++index) {
    std::uint32_t state = 0;
    for (const char letter : stops[index]) {
      const unsigned char byte = static_cast<unsigned char>(letter);
      std::uint32_t child = Child(states_[state], byte);
      if (child == 0) {
        child = static_cast<std::uint32_t>(states_.size());
        states_[state].next.emplace_back(byte, child);
        const std::uint32_t depth = states_[state].depth + 1;
        states_.emplace_back().depth = depth;
      }
      state = child;
    }
    if (state != 0 && states_[state].stop_index < 0) {
      states_[state].stop_index = static_cast<int>(index);
      states_[state].stop_bytes = states_[state].depth;
    }
  }
  // Breadth first, so that a shorter state is finished before a longer one falls back to it.
  std::vector<std::uint32_t> order = {0};
  for (std::size_t place = 0; place < order.size(); ++place) {
    const std::uint32_t parent = order[place];
    for (const auto& [byte, child] : states_[parent].next) {
      State& state = states_[child];
      state.fallback = parent == 0 ? 0 : Next(states_[parent].fallback, byte);
      if (state.stop_index < 0) {
        state.stop_index = states_[state.fallback].stop_index;
        state.stop_bytes = states_[state.fallback].stop_bytes;
      }
      order.push_back(child);
    }
  }
}

std::uint32_t StopMatcher::Child(const State& state, unsigned char byte) {
  for (const auto& [label, child] : state.next) {
    if (label == byte) return child;
  }
  return 0;
}

std::uint32_t StopMatcher::Next(std::uint32_t state, unsigned char byte) const {
  for (;; state = states_[state].fallback) {
    if (const std::uint32_t child = Child(states_[state], byte); child != 0) return child;
    if (state == 0) return 0;
  }
}

StopMatcher::Answer StopMatcher::Push(std::string_view text) {
  SKEIN_CHECK(!stopped_);
  Answer answer;
  for (std::size_t place = 0; place < text.size(); ++place) {
    state_ = Next(state_, static_cast<unsigned char>(text[place]));
    if (states_[state_].stop_index < 0) continue;
    answer.emit = std::exchange(held_, std::string()).append(text.substr(0, place + 1));
    answer.emit.resize(answer.emit.size() - states_[state_].stop_bytes);
    answer.stop_index = states_[state_].stop_index;
    answer.stopped = stopped_ = true;
    return answer;
  }
  held_.append(text);
  const std::size_t certain = held_.size() - states_[state_].depth;
  answer.emit = held_.substr(0, certain);
  held_.erase(0, certain);
  return answer;
}

std::string StopMatcher::Finish() {
  state_ = 0;
  return std::exchange(held_, std::string());
}

}  // namespace skein::text
