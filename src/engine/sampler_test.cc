// SPDX-License-Identifier: Apache-2.0
//
// The sampler against the exact distributions, computed plainly in double with a full sort. Fixed seeds: a test that passes
// once passes always.
#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "kernels/arithmetic.h"

namespace skein::engine {
namespace {

using scheduler::SamplingParameters;
using scheduler::ScoredToken;
using scheduler::SequenceStart;

kernels::KernelPath Ref() { return kernels::KernelPath::kRef; }

// The fastest; AllKernelPathsDrawTheSame says that it does not matter.
kernels::KernelPath Fastest() { return kernels::AvailablePaths().front(); }

std::vector<float> RandomLogits(int count, unsigned seed, float spread = 2.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> logits(static_cast<std::size_t>(count));
  for (float& logit : logits) logit = normal(random);
  return logits;
}

SequenceStart StartOf(const SamplingParameters& parameters) {
  SequenceStart start;
  start.sampling = parameters;
  start.prompt_tokens = 1;
  return start;
}

// What the sampler must do, said plainly: adjusted logits to probabilities.
std::vector<double> Exact(std::vector<double> logits, const SamplingParameters& parameters) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  std::vector<double> p(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) p[i] = std::exp((logits[i] - logits[order[0]]) / parameters.temperature);
  std::size_t kept = p.size();
  if (parameters.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(parameters.top_k));
  const auto sum_of_kept = [&] {
    double sum = 0;
    for (std::size_t i = 0; i < kept; ++i) sum += p[order[i]];
    return sum;
  };
  if (parameters.top_p < 1) {
    const double needed = sum_of_kept() * parameters.top_p;
    double sum = 0;
    std::size_t count = 0;
    while (count < kept && sum < needed) sum += p[order[count++]];
    kept = std::max<std::size_t>(count, 1);
  }
  while (kept > 1 && p[order[kept - 1]] < parameters.min_p) --kept;
  const double sum = sum_of_kept();
  std::vector<double> result(p.size(), 0.0);
  for (std::size_t i = 0; i < kept; ++i) result[order[i]] = p[order[i]] / sum;
  return result;
}

// Draws over many positions and compares with `exact`: nothing outside its support, and a chi-square that a right sampler
// exceeds once in a million (Wilson and Hilferty's approximation of the quantile).
void ExpectDistribution(const std::vector<float>& logits, const SequenceStart& start, const std::vector<double>& exact,
                        int draws = 40000) {
  Sampler sampler(Fastest(), static_cast<std::int32_t>(logits.size()));
  const SamplerState state(start);
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) ++counts[static_cast<std::size_t>(sampler.Sample(logits, state, {.position = 1 + i}).token)];
  double chi_square = 0, rare_expected = 0, rare_count = 0;
  int cells = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = exact[i] * draws;
    if (exact[i] == 0) {
      ASSERT_EQ(counts[i], 0) << "token " << i << " should not be drawn";
    } else if (expected < 8) {
      rare_expected += expected;
      rare_count += counts[i];
    } else {
      chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
      ++cells;
    }
  }
  if (rare_expected > 4) {
    chi_square += (rare_count - rare_expected) * (rare_count - rare_expected) / rare_expected;
    ++cells;
  }
  if (cells < 2) return;
  const double freedom = cells - 1;
  const double scale = 2 / (9 * freedom);
  EXPECT_LT(chi_square, freedom * std::pow(1 - scale + 4.75 * std::sqrt(scale), 3)) << cells << " cells";
}

std::vector<double> Widened(const std::vector<float>& logits) { return {logits.begin(), logits.end()}; }

// Answers would be drawn from another distribution than the model's.
TEST(SamplerTest, DrawsFollowTheExactDistribution) {
  const std::vector<float> logits = RandomLogits(60, 1);
  for (const float temperature : {0.3f, 1.0f, 2.5f}) {
    for (const std::int32_t top_k : {0, 1, 7, 60, 1000}) {
      for (const float top_p : {1.0f, 0.9f, 0.4f, 1e-6f}) {
        for (const float min_p : {0.0f, 0.1f, 1.0f}) {
          const SamplingParameters parameters{.temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p, .seed = 11};
          SCOPED_TRACE("T " + std::to_string(temperature) + " k " + std::to_string(top_k) + " p " + std::to_string(top_p) +
                       " m " + std::to_string(min_p));
          ExpectDistribution(logits, StartOf(parameters), Exact(Widened(logits), parameters), 1500);
        }
      }
    }
  }
}

// Small errors of the noise would show only in many draws.
TEST(SamplerTest, ManyDrawsFollowTheExactDistribution) {
  const std::vector<float> logits = RandomLogits(200, 2, 3.0f);
  for (const std::uint64_t seed : {0ull, 1ull, 0xFFFFFFFFFFFFFFFFull}) {
    const SamplingParameters parameters{.seed = seed};
    ExpectDistribution(logits, StartOf(parameters), Exact(Widened(logits), parameters), 40000);
  }
}

// Penalties, bias or the order in which they apply would be wrong.
TEST(SamplerTest, BiasAndPenaltiesAreAppliedInOrder) {
  const std::vector<float> logits = RandomLogits(30, 3);
  SequenceStart start = StartOf({.temperature = 0.8f,
                                 .repetition_penalty = 1.3f,
                                 .frequency_penalty = 0.4f,
                                 .presence_penalty = 0.2f,
                                 .seed = 5,
                                 .bias = {{2, 1.5f}, {3, -1.0f}, {29, -50.0f}}});
  start.prompt = {1, 2, 2, 4};
  start.generated = {2, 5, 5, 6};
  std::vector<double> adjusted = Widened(logits);
  adjusted[2] += 1.5;
  adjusted[3] -= 1;
  adjusted[29] -= 50;
  for (const std::size_t token : {1u, 2u, 4u, 5u, 6u}) {
    adjusted[token] = adjusted[token] > 0 ? adjusted[token] / 1.3f : adjusted[token] * 1.3f;
  }
  for (const auto& [token, count] : {std::pair(2u, 1), std::pair(5u, 2), std::pair(6u, 1)}) {
    adjusted[token] -= 0.4f * static_cast<float>(count) + 0.2f;
  }
  ExpectDistribution(logits, start, Exact(adjusted, start.sampling));
}

// An answer would change when its sequence was preempted and replayed.
TEST(SamplerTest, AStateMadeFromTokensEqualsOneThatSawThem) {
  const std::vector<float> logits = RandomLogits(30, 4);
  Sampler sampler(Ref(), 30);
  SequenceStart start = StartOf({.repetition_penalty = 1.2f, .frequency_penalty = 0.5f, .presence_penalty = 0.5f});
  start.prompt = {1, 2};
  SamplerState living(start);
  for (std::int32_t position = 1; position < 200; ++position) {
    const SamplerState replayed(start);
    const ScoredToken token = sampler.Sample(logits, living, {.position = position, .top = 3});
    EXPECT_EQ(sampler.Sample(logits, replayed, {.position = position, .top = 3}), token);
    living.Accept(token.token);
    start.generated.push_back(token.token);
  }
}

// The bound that saves logarithms would throw away the winner; or noise would depend on what else is kept.
TEST(SamplerTest, TheShortWayDrawsWhatTheLongWayDraws) {
  for (const float spread : {0.01f, 1.0f, 4.0f}) {
    const std::vector<float> logits = RandomLogits(3999, 6, spread);
    const auto lowest = static_cast<TokenId>(std::min_element(logits.begin(), logits.end()) - logits.begin());
    Sampler sampler(Fastest(), 3999);
    const SamplerState all(StartOf({.seed = 3}));
    const SamplerState all_but_one(StartOf({.top_k = 3998, .seed = 3}));
    for (std::int32_t position = 1; position < 400; ++position) {
      const TokenId token = sampler.Sample(logits, all, {.position = position}).token;
      if (token != lowest) {
        ASSERT_EQ(sampler.Sample(logits, all_but_one, {.position = position}).token, token);
      }
    }
  }
  const std::vector<float> logits = RandomLogits(6001, 7, 0.5f);
  Sampler sampler(Fastest(), 6001);
  const SamplerState all(StartOf({}));
  const SamplerState many(StartOf({.min_p = 1e-20f}));  // so many that noise is made for the whole vocabulary
  for (std::int32_t position = 1; position < 200; ++position) {
    ASSERT_EQ(sampler.Sample(logits, many, {.position = position}), sampler.Sample(logits, all, {.position = position}));
  }
}

// Large vocabularies with equal logits would keep more or other tokens than asked.
TEST(SamplerTest, KeptSetsOfLargeVocabulariesWithTies) {
  std::vector<float> logits = RandomLogits(1500, 7);
  for (float& logit : logits) logit = std::round(logit * 2) / 2;  // many ties
  for (const SamplingParameters& parameters :
       {SamplingParameters{.top_k = 40}, SamplingParameters{.top_p = 0.7f}, SamplingParameters{.top_p = 0.999f},
        SamplingParameters{.temperature = 0.2f, .top_p = 0.9999f}, SamplingParameters{.min_p = 0.05f},
        SamplingParameters{.top_k = 1000, .top_p = 0.8f, .min_p = 0.01f}, SamplingParameters{.top_p = 0.9999999f}}) {
    ExpectDistribution(logits, StartOf(parameters), Exact(Widened(logits), parameters), 2000);
  }
}

// Logits that are nearly all alike would take a long way, on which tokens at the border could be lost.
TEST(SamplerTest, KeptSetsOfNearlyEqualLogits) {
  for (const float spread : {0.0f, 1e-6f, 0.002f, 0.05f}) {
    std::vector<float> logits = RandomLogits(4000, 12);
    for (float& logit : logits) logit *= spread;
    for (const SamplingParameters& parameters :
         {SamplingParameters{.top_p = 0.5f}, SamplingParameters{.top_p = 0.01f}, SamplingParameters{.top_k = 300, .top_p = 0.9f}}) {
      ExpectDistribution(logits, StartOf(parameters), Exact(Widened(logits), parameters), 1000);
    }
  }
}

// Two choices of a request would be the same answer, or a seed would not be one.
TEST(SamplerTest, SeedChoiceAndPositionAreTheKey) {
  const std::vector<float> logits(1000, 0.0f);
  Sampler sampler(Ref(), 1000);
  const auto answer = [&](std::uint64_t seed, std::int32_t choice) {
    SequenceStart start = StartOf({.seed = seed});
    start.choice = choice;
    const SamplerState state(start);
    std::vector<TokenId> tokens;
    for (std::int32_t position = 1; position <= 200; ++position) {
      tokens.push_back(sampler.Sample(logits, state, {.position = position}).token);
    }
    return tokens;
  };
  const auto equal_places = [](const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
    int count = 0;
    for (std::size_t i = 0; i < a.size(); ++i) count += a[i] == b[i] ? 1 : 0;
    return count;
  };
  const std::vector<TokenId> first = answer(1, 0);
  EXPECT_EQ(answer(1, 0), first);
  EXPECT_LT(equal_places(answer(2, 0), first), 5);
  EXPECT_LT(equal_places(answer(1ull << 32, 0), first), 5);
  EXPECT_LT(equal_places(answer(1, 1), first), 5);
  std::vector<TokenId> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_GT(std::unique(sorted.begin(), sorted.end()) - sorted.begin(), 150);
}

// Log-probabilities in answers and perplexities would be wrong.
TEST(SamplerTest, LogprobsAreOfTheRawDistribution) {
  std::vector<float> logits = RandomLogits(5000, 8, 4.0f);
  logits[17] = logits[4000] = 30.0f;  // a tie at the top
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - 30.0);
  const auto exact = [&](TokenId token) { return logits[static_cast<std::size_t>(token)] - 30.0 - std::log(sum); };
  Sampler sampler(Ref(), 5000);
  const SamplerState hot(StartOf({.temperature = 3.0f, .bias = {{5, 100.0f}}}));
  const ScoredToken drawn = sampler.Sample(logits, hot, {.position = 1, .top = 20});
  EXPECT_EQ(drawn.token, 5);
  EXPECT_NEAR(drawn.logprob, exact(5), 1e-5);
  ASSERT_EQ(drawn.top.size(), 20u);
  EXPECT_EQ(drawn.top[0].token, 17);
  EXPECT_EQ(drawn.top[1].token, 4000);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_NEAR(drawn.top[i].logprob, exact(drawn.top[i].token), 1e-5);
    if (i > 0) {
      EXPECT_LE(drawn.top[i].logprob, drawn.top[i - 1].logprob);
    }
  }
  const ScoredToken scored = sampler.Score(logits, 123, 5);
  EXPECT_EQ(scored.token, 123);
  EXPECT_NEAR(scored.logprob, exact(123), 1e-5);
  EXPECT_TRUE(std::equal(scored.top.begin(), scored.top.end(), drawn.top.begin()));
  EXPECT_EQ(sampler.Sample(logits, hot, {.position = 1}).logprob, 0.0f);  // not wanted
  EXPECT_EQ(sampler.Score(std::vector<float>(5000, 1.0f), 0, 6000).top.size(), 5000u);
}

// Greedy answers would not be the likeliest, or not the same on every run.
TEST(SamplerTest, GreedyTakesTheLargestAndTheLowestIdAmongEquals) {
  Sampler sampler(Ref(), 6);
  const SamplerState greedy(StartOf({.temperature = 0}));
  const SamplerState biased(StartOf({.temperature = 0, .bias = {{1, 2.0f}}}));
  const std::vector<float> logits{0, 1, 3, 3, 2, 3};
  EXPECT_EQ(sampler.Sample(logits, greedy, {}).token, 2);
  EXPECT_EQ(sampler.Sample(logits, biased, {}).token, 1);
}

// Broken weights would crash the engine, or give another token each time.
TEST(SamplerTest, NanAndInfinityGiveADefinedToken) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  Sampler sampler(Ref(), 4);
  for (const SamplingParameters& parameters :
       {SamplingParameters{.temperature = 0}, SamplingParameters{}, SamplingParameters{.top_k = 2},
        SamplingParameters{.top_p = 0.5f}, SamplingParameters{.min_p = 0.5f}, SamplingParameters{.frequency_penalty = 1},
        SamplingParameters{.temperature = 1e-38f}}) {
    const SamplerState state(StartOf(parameters));
    const auto token = [&](std::vector<float> logits) {
      const ScoredToken scored = sampler.Sample(logits, state, {.position = 1, .top = 4});
      EXPECT_TRUE(std::isfinite(scored.logprob));
      EXPECT_EQ(scored.top.size(), 4u);
      EXPECT_EQ(scored, sampler.Sample(logits, state, {.position = 1, .top = 4}));
      return scored.token;
    };
    EXPECT_EQ(token({nan, -infinity, 5, nan}), 2);
    EXPECT_EQ(token({1, infinity, 5, -3}), 1);
    const TokenId any = token({nan, nan, nan, nan});
    EXPECT_TRUE(any >= 0 && any < 4);
    if (parameters.temperature == 0) {
      EXPECT_EQ(any, 0);
      EXPECT_EQ(token({nan, -infinity, -infinity, nan}), 0);
    }
    token({-infinity, -infinity, infinity, infinity});
  }
}

// An answer would end before it may, or leave its grammar.
TEST(SamplerTest, MasksAndStopTokensAreNotDrawn) {
  const std::vector<float> logits = RandomLogits(100, 9);
  Sampler sampler(Ref(), 100);
  const std::vector<std::uint64_t> allowed{0xF0, 1};  // 4 … 7 and 64
  for (const float temperature : {0.0f, 5.0f}) {
    SequenceStart start = StartOf({.temperature = temperature});
    start.prompt_tokens = 10;
    start.min_tokens = 5;
    start.stop_tokens = {4, 64};
    const SamplerState state(start);
    int stops = 0;
    for (std::int32_t position = 10; position < 300; ++position) {
      const TokenId token = sampler.Sample(logits, state, {.position = position, .allowed = allowed}).token;
      EXPECT_TRUE((token >= 4 && token < 8) || token == 64);
      const bool is_stop = token == 4 || token == 64;
      EXPECT_FALSE(is_stop && position < 15);
      stops += is_stop ? 1 : 0;
    }
    if (temperature > 0) {
      EXPECT_GT(stops, 20);
    }
    const std::vector<std::uint64_t> only_stop{0, 1};
    EXPECT_EQ(sampler.Sample(logits, state, {.position = 10, .allowed = only_stop}).token, 64);
    EXPECT_EQ(sampler.Sample(logits, state, {.position = 10, .allowed = std::vector<std::uint64_t>{0}}).token, 0);
  }
}

// The same seed would give other answers on another machine.
TEST(SamplerTest, AllKernelPathsDrawTheSame) {
  Sampler ref(Ref(), 4999);
  for (const float spread : {0.001f, 1.0f, 3.0f}) {
    const std::vector<float> logits = RandomLogits(4999, 10, spread);
    for (const kernels::KernelPath path : kernels::AvailablePaths()) {
      Sampler sampler(path, 4999);
      for (const SamplingParameters& parameters :
           {SamplingParameters{.temperature = 0}, SamplingParameters{.temperature = 0.9f}, SamplingParameters{.top_k = 50},
            SamplingParameters{.top_k = 3000, .top_p = 0.99f}, SamplingParameters{.top_p = 0.9f},
            SamplingParameters{.min_p = 0.02f}}) {
        const SamplerState state(StartOf(parameters));
        for (std::int32_t position = 1; position < 30; ++position) {
          ASSERT_EQ(sampler.Sample(logits, state, {.position = position, .top = 3}),
                    ref.Sample(logits, state, {.position = position, .top = 3}));
        }
      }
    }
  }
}

}  // namespace
}  // namespace skein::engine
