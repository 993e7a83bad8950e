// SPDX-License-Identifier: Apache-2.0
#include "model/phase_clock.h"

#include <gtest/gtest.h>

namespace skein::model {
namespace {

// Would break: a profile counts time twice or blames the wrong phase, and somebody tunes what does not matter.
TEST(PhaseClockTest, PhasesFillAStepButForWhatIsSkipped) {
  PhaseClock clock;
  clock.Mark(Phase::kHead);  // between steps: of no step
  clock.EndStep();
  EXPECT_TRUE(clock.Read().spans.empty());

  clock.BeginStep(/*tokens=*/7, /*prompt=*/true);
  clock.Skip();
  clock.EnterLayer(3);
  clock.Mark(Phase::kQkv);
  clock.Mark(Phase::kBarrier);
  clock.EndStep();
  clock.BeginStep(/*tokens=*/2, /*prompt=*/false);
  clock.Mark(Phase::kEmbed);
  clock.EndStep();

  const PhaseClock::Profile profile = clock.Read();
  EXPECT_EQ(profile.prompts.steps, 1);
  EXPECT_EQ(profile.prompts.tokens, 7);
  EXPECT_EQ(profile.answers.steps, 1);
  EXPECT_EQ(profile.answers.tokens, 2);
  ASSERT_EQ(profile.spans.size(), 3u);
  EXPECT_EQ(profile.spans[0].layer, 3);
  EXPECT_EQ(profile.spans[0].phase, Phase::kQkv);
  EXPECT_EQ(profile.spans[0].begin_ns + profile.spans[0].length_ns, profile.spans[1].begin_ns);
  EXPECT_EQ(profile.spans[2].layer, -1);
  EXPECT_EQ(profile.prompts.phase_ns[static_cast<std::size_t>(Phase::kQkv)], profile.spans[0].length_ns);
  for (const PhaseClock::Totals& totals : {profile.prompts, profile.answers}) {
    EXPECT_GE(totals.Unmarked(), 0.0);
    EXPECT_LE(totals.Unmarked(), 1.0);
  }
}

// Would break: a server that is profiled for a day runs out of memory.
TEST(PhaseClockTest, TheTraceEndsWhereItsRoomDoes) {
  PhaseClock clock;
  const auto step = [&] {
    clock.BeginStep(1, false);
    for (int i = 0; i < 10'000; ++i) clock.Mark(Phase::kDown);  // more than a step's spans
    clock.EndStep();
  };
  for (int i = 0; i < 64; ++i) step();
  const PhaseClock::Profile full = clock.Read();
  EXPECT_GT(full.steps_left_out, 0);
  step();
  const PhaseClock::Profile later = clock.Read();
  EXPECT_EQ(later.spans.size(), full.spans.size());
  EXPECT_EQ(later.steps_left_out, full.steps_left_out + 1);
  EXPECT_EQ(later.answers.steps, full.answers.steps + 1);
}

}  // namespace
}  // namespace skein::model
