// SPDX-License-Identifier: Apache-2.0
#include "text/stop_matcher.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace skein::text {
namespace {

TEST(StopMatcher, HoldsBackOnlyWhatCouldBecomeAStop) {
  // A stream would stutter, or show a part of the stop string.
  StopMatcher matcher({"END", "\n\nUser:"});
  EXPECT_EQ(matcher.Push("Hello E").emit, "Hello ");
  EXPECT_EQ(matcher.Push("N").emit, "");
  EXPECT_EQ(matcher.Push("TER").emit, "ENTER");
  EXPECT_EQ(matcher.Push("\n").emit, "");
  EXPECT_EQ(matcher.Push("\n\nUs").emit, "\n");
  const StopMatcher::Answer answer = matcher.Push("er: hi");
  EXPECT_TRUE(answer.stopped);
  EXPECT_EQ(answer.emit, "");
  EXPECT_EQ(answer.stop_index, 1);
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, GivesBackWhatWasHeldWhenTheTextEnds) {
  // The last letters of an answer would be lost.
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.Push("I must st").emit, "I must ");
  EXPECT_EQ(matcher.Finish(), "st");
}

TEST(StopMatcher, WithoutStopsEverythingPasses) {
  // Requests without stop strings would be held up, and an empty one would end every answer.
  StopMatcher none({});
  EXPECT_EQ(none.Push("abc").emit, "abc");
  StopMatcher empty({""});
  EXPECT_EQ(empty.Push("abc").emit, "abc");
  EXPECT_FALSE(empty.Push("d").stopped);
}

// The first stop string to be complete, the longest of those that end there: by plain search.
std::string Reference(const std::string& text, const std::vector<std::string>& stops, bool& stopped) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) longest = std::max(longest, stop.size());
    }
    if (longest > 0) {
      stopped = true;
      return text.substr(0, end - longest);
    }
  }
  stopped = false;
  return text;
}

TEST(StopMatcher, HowTextIsCutIntoPiecesChangesNothing) {
  // The same answer would end in different places from one run to the next.
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    const auto letters = [&](std::size_t most) {
      std::string made;
      for (std::size_t count = random() % (most + 1); made.size() < count;) made.push_back(static_cast<char>('a' + random() % 2));
      return made;
    };
    std::vector<std::string> stops;
    for (std::size_t count = random() % 4; stops.size() < count;) stops.push_back("a" + letters(5));
    const std::string text = letters(12);
    bool wanted_stop = false;
    const std::string wanted = Reference(text, stops, wanted_stop);
    StopMatcher matcher(stops);
    std::string found;
    bool stopped = false;
    for (std::size_t place = 0; place < text.size() && !stopped;) {
      const std::size_t bytes = 1 + random() % 4;
      const StopMatcher::Answer answer = matcher.Push(std::string_view(text).substr(place, bytes));
      found += answer.emit;
      stopped = answer.stopped;
      place += bytes;
    }
    found += matcher.Finish();
    ASSERT_EQ(found, wanted) << "round " << round << ", text " << text;
    ASSERT_EQ(stopped, wanted_stop) << "round " << round;
  }
}

}  // namespace
}  // namespace skein::text
