// SPDX-License-Identifier: Apache-2.0
#include "server/openai/admission.h"

#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace skein::server {
namespace {

using Place = Admission::Place;

TEST(Admission, SoManyRunSoManyWaitAndNobodyElse) {
  // A full server would promise places that it does not have, or turn people away while it is idle.
  Admission admission(1, 2);
  std::string order;
  std::vector<std::optional<Place>> places;
  for (int i = 0; i < 3; ++i) places.push_back(admission.TryEnter());
  EXPECT_FALSE(admission.TryEnter().has_value());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(places[static_cast<std::size_t>(i)].has_value());
    admission.Await(*places[static_cast<std::size_t>(i)], [&order, i] { order += std::to_string(i); });
  }
  EXPECT_EQ(order, "0");
  EXPECT_EQ(admission.running(), 1u);
  EXPECT_EQ(admission.waiting(), 2u);
  places[0].reset();
  EXPECT_EQ(order, "01") << "in order";
  places[2].reset();  // gives up while it waits
  places[1].reset();
  EXPECT_EQ(order, "01");
  EXPECT_EQ(admission.running(), 0u);
  EXPECT_EQ(admission.waiting(), 0u);
}

TEST(Admission, ARequestThatIsSlowToReadHoldsUpNobody) {
  // A megabyte of prompt would keep short ones waiting.
  Admission admission(1, 4);
  std::optional<Place> slow = admission.TryEnter(), quick = admission.TryEnter();
  bool granted = false;
  admission.Await(*quick, [&granted] { granted = true; });
  EXPECT_TRUE(granted);
}

TEST(Admission, RequestsThatFailAtOnceDoNotNest) {
  // A long queue of requests that are refused as soon as they may run would overflow the stack.
  constexpr std::size_t kCount = 100'000;
  Admission admission(1, kCount);
  std::vector<std::optional<Place>> places;
  for (std::size_t i = 0; i < kCount; ++i) places.push_back(admission.TryEnter());
  std::size_t granted = 0;
  for (std::size_t i = 1; i < kCount; ++i) {
    if (i == 1) admission.Await(*places[0], [] {});
    admission.Await(*places[i], [&, i] {
      ++granted;
      places[i].reset();
    });
  }
  places[0].reset();
  EXPECT_EQ(granted, kCount - 1);
  EXPECT_EQ(admission.waiting(), 0u);
}

TEST(Admission, PlacesNeverLeak) {
  // After enough odd endings the server would refuse everybody.
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    Admission admission(3, 5);
    std::vector<std::optional<Place>> places(12);
    std::vector<bool> asked(12);
    for (int step = 0; step < 500; ++step) {
      const std::size_t i = random() % places.size();
      if (!places[i]) {
        places[i] = admission.TryEnter();
        asked[i] = false;
      } else if (!asked[i] && random() % 2) {
        asked[i] = true;
        admission.Await(*places[i], [] {});
      } else {
        places[i].reset();
      }
      ASSERT_LE(admission.running(), 3u);
      ASSERT_LE(admission.running() + admission.waiting(), 8u);
    }
    places.clear();
    EXPECT_EQ(admission.running() + admission.waiting(), 0u);
  }
}

}  // namespace
}  // namespace skein::server
