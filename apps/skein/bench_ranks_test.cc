// SPDX-License-Identifier: Apache-2.0
//
// If efficiency or its parts were put together wrongly, people would look for lost time where there is none.
#include <gtest/gtest.h>

#include "bench_ranks_figures.h"

namespace skein::app {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

formats::ModelConfig NineHeads() {
  formats::ModelConfig config;
  config.layers = 30;
  config.hidden = 576;
  config.heads = 9;
  config.kv_heads = 3;
  config.head_dim = 64;
  config.feed_forward = 1536;
  config.vocabulary = 49152;
  return config;
}

std::vector<engine::RankStats> TwoRanks(engine::RankPart first, engine::RankPart second) {
  engine::RankStats a{.layers = {0, 30}, .heads = first, .columns = {0, 768}, .vocabulary = {0, 24576}};
  engine::RankStats b{.rank = 1, .tensor = 1, .layers = {0, 30}, .heads = second, .columns = {768, 1536}, .vocabulary = {24576, 49152}};
  return {a, b};
}

// Alone ten seconds; two ranks take six, of which the first computes 5.5 and the second 5.
RankRound Round() {
  RankRound round;
  round.one = {.tokens_per_s = 10, .seconds = 10, .loads = {{.busy_ns = 9 * kSecond + kSecond / 2}}};
  round.together = {.tokens_per_s = 18, .seconds = 5.6, .loads = {{}}};
  round.mesh = {.tokens_per_s = 16,
                .seconds = 6,
                .loads = {{.steps = 64, .busy_ns = 5 * kSecond + kSecond / 2, .communication_ns = kSecond / 4, .bytes_sent = 3000},
                          {.steps = 64, .busy_ns = 5 * kSecond, .communication_ns = kSecond / 4, .waiting_ns = 3 * kSecond / 4, .bytes_sent = 3400}}};
  return round;
}

TEST(BenchRanks, PartsAreAllOfTheTime) {
  const RankParts parts = PartsOf(Round());
  EXPECT_DOUBLE_EQ(parts.useful, 10.0 / 12);
  EXPECT_DOUBLE_EQ(parts.more_work, 1.0 / 12);
  EXPECT_DOUBLE_EQ(parts.communication, 0.5 / 12);
  EXPECT_DOUBLE_EQ(parts.imbalance, 0.5 / 12);
  EXPECT_NEAR(parts.waiting, 0.25 / 12, 1e-12);
  EXPECT_NEAR(parts.useful + parts.more_work + parts.communication + parts.imbalance + parts.waiting + parts.between, 1, 1e-12);
}

TEST(BenchRanks, RatiosAreOfTheirRound) {
  // The machine was half as fast in the second round: no ratio may see that.
  RankRound slow = Round();
  for (RankRun* run : {&slow.one, &slow.together, &slow.mesh}) run->tokens_per_s /= 2;
  const RankMeasurement measurement{{.generate = 64}, {Round(), slow, Round()}};
  const RankFigures figures = FiguresOf(measurement, TwoRanks({0, 5}, {5, 9}), NineHeads());
  EXPECT_DOUBLE_EQ(figures.efficiency, 0.8);
  EXPECT_DOUBLE_EQ(figures.of_together, 16.0 / 18);
  EXPECT_DOUBLE_EQ(figures.bytes_per_token, 100);
  EXPECT_EQ(figures.bubble_formula, 0);
}

TEST(BenchRanks, UnevenHeadsBoundEfficiency) {
  formats::ModelConfig config = NineHeads();
  // By hand: of one layer, in 576 · 64 multiplications: 24 of attention's (18 query, 6 key rows), of which the larger share has 10 + 4; three times 24 of the rest.
  const double layer = 24 + 72, larger = 14 + 36, head = 49152.0 / 64;
  EXPECT_NEAR(BalanceBound(config, TwoRanks({0, 5}, {5, 9}), 0, 1), (30 * layer + head) / (2 * (30 * larger + head / 2)), 1e-9);
  // Where everything can be halved there is nothing to lose.
  config.heads = 8;
  config.kv_heads = 2;
  EXPECT_NEAR(BalanceBound(config, TwoRanks({0, 4}, {4, 8}), 512, 1), 1, 1e-9);
}

TEST(BenchRanks, AStageTooManyBoundsAPipe) {
  std::vector<engine::RankStats> ranks = TwoRanks({0, 9}, {0, 9});
  for (engine::RankStats& rank : ranks) rank.columns = {0, 1536}, rank.vocabulary = {0, 49152};
  ranks[0].layers = {0, 20};
  ranks[1].pipe = 1;
  ranks[1].tensor = 0;
  ranks[1].layers = {20, 30};
  EXPECT_NEAR(BalanceBound(NineHeads(), ranks, 0, 0), 30.0 / 40, 1e-9);
}

TEST(BenchRanks, TheFormulaOfBubbles) {
  EXPECT_DOUBLE_EQ(BubbleFormula({.prompt = 512}, 2, 7), 1.0 / 8);
  EXPECT_DOUBLE_EQ(BubbleFormula({.generate = 64, .batch = 8}, 2, 128), 1.0 / 129);
  EXPECT_DOUBLE_EQ(BubbleFormula({.generate = 64}, 2, 64), 0.5) << "a sequence waits for its own token";
  EXPECT_EQ(BubbleFormula({.generate = 64}, 1, 64), 0);
  const RankRun uneven{.seconds = 1, .loads = {{.busy_ns = 6}, {.busy_ns = 9}}};
  EXPECT_DOUBLE_EQ(BubbleOfUneven({.generate = 64, .batch = 8}, 2, 0.1, uneven), 1 - 0.9 * 15 / 18);
  EXPECT_DOUBLE_EQ(BubbleOfUneven({.generate = 64}, 2, 0.5, uneven), 0.5) << "stages that take turns";
}

TEST(BenchRanks, FormsHaveEveryTest) {
  RankReport report;
  report.info.name = "m";
  report.info.threads = report.info.tensor = 2;
  report.ranks = TwoRanks({0, 5}, {5, 9});
  report.config = NineHeads();
  report.measurements = {{{.prompt = 512}, {Round()}}, {{.generate = 64, .batch = 8}, {Round()}}};
  for (const std::string& form : {RankText(report), RankJson(report, "c")}) {
    EXPECT_NE(form.find("pp512"), std::string::npos);
    EXPECT_NE(form.find("tg64×b8"), std::string::npos);
  }
  EXPECT_NE(RankText(report).find("η 80.0 %"), std::string::npos) << RankText(report);
}

}  // namespace
}  // namespace skein::app
