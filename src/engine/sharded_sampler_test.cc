// SPDX-License-Identifier: Apache-2.0
//
// If these fail, an answer depends on how many ranks share the vocabulary, or sampling sends so much that more ranks
// are slower.
#include "engine/sharded_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

namespace skein::engine {
namespace {

using scheduler::SamplingParameters;
using scheduler::ScoredToken;

// Ranks side by side: what each wants to say is gathered, and all of them read it.
class Ranks {
 public:
  Ranks(const std::vector<TokenId>& borders, std::vector<kernels::KernelPath> paths) {
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
      shards_.push_back({borders, static_cast<int>(i)});
      sieves_.emplace_back(paths[i % paths.size()]);
    }
    readings_.resize(shards_.size());
  }

  ScoredToken Sample(const std::vector<float>& logits, const SamplerState& state, const SampleWish& wish) {
    for (std::size_t i = 0; i < shards_.size(); ++i) readings_[i].BeginSample(shards_[i], Part(logits, i), state, wish);
    return Finish();
  }
  ScoredToken Score(const std::vector<float>& logits, TokenId target, std::int32_t top) {
    for (std::size_t i = 0; i < shards_.size(); ++i) readings_[i].BeginScore(shards_[i], Part(logits, i), target, top);
    return Finish();
  }
  // Of the last call.
  std::size_t rounds() const { return rounds_; }
  std::size_t bytes() const { return bytes_; }  // that each rank said

 private:
  std::span<const float> Part(const std::vector<float>& logits, std::size_t shard) const {
    return std::span(logits).subspan(static_cast<std::size_t>(shards_[shard].first[shard]),
                                     static_cast<std::size_t>(shards_[shard].SizeOf(shard)));
  }
  ScoredToken Finish() {
    rounds_ = bytes_ = 0;
    while (const std::size_t bytes = readings_[0].message_bytes()) {
      ++rounds_;
      bytes_ += bytes;
      std::vector<std::byte> messages(readings_.size() * bytes);
      for (std::size_t i = 0; i < readings_.size(); ++i) {
        EXPECT_EQ(readings_[i].message_bytes(), bytes);
        readings_[i].Write(sieves_[i], std::span(messages).subspan(i * bytes, bytes));
      }
      for (std::size_t i = 0; i < readings_.size(); ++i) readings_[i].Read(sieves_[i], messages.data(), bytes);
    }
    for (const ShardReading& reading : readings_) {
      EXPECT_EQ(reading.message_bytes(), 0u);
      EXPECT_EQ(reading.scored(), readings_[0].scored());
    }
    return readings_[0].scored();
  }

  std::vector<VocabularyShards> shards_;
  std::vector<Sieve> sieves_;
  std::vector<ShardReading> readings_;
  std::size_t rounds_ = 0, bytes_ = 0;
};

class Chance {
 public:
  explicit Chance(unsigned seed) : random_(seed) {}
  int Below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  bool OneIn(int count) { return Below(count) == 0; }
  template <typename T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[Below(static_cast<int>(values.size()))];
  }
  float Normal(float deviation) { return std::normal_distribution<float>(0.0f, 1.0f)(random_) * deviation; }

 private:
  std::mt19937 random_;
};

// One to eight shards, uneven; some are empty.
std::vector<TokenId> Borders(Chance& chance, int vocabulary) {
  std::vector<TokenId> borders = {0, vocabulary};
  for (int more = chance.Below(8); more > 0; --more)
    borders.push_back(chance.OneIn(6) ? borders.back() : chance.Below(vocabulary + 1));
  std::sort(borders.begin(), borders.end());
  return borders;
}

std::vector<float> Logits(Chance& chance, int vocabulary) {
  const float deviation = chance.OneOf({0.0f, 1e-7f, 1e-5f, 0.001f, 0.05f, 1.0f, 2.0f, 4.0f, 20.0f});
  const float step = chance.OneOf({0.0f, 0.0f, 0.5f});  // of ties
  std::vector<float> logits(static_cast<std::size_t>(vocabulary));
  for (float& logit : logits) {
    logit = chance.Normal(deviation);
    if (step > 0) logit = std::round(logit / step) * step;
  }
  if (chance.OneIn(3)) {
    for (int i = 0; i < 5; ++i)
      logits[static_cast<std::size_t>(chance.Below(vocabulary))] += 8.0f + chance.Normal(2.0f);
  }
  if (chance.OneIn(6)) {
    const float infinity = std::numeric_limits<float>::infinity();
    for (float& logit : logits) {
      if (chance.OneIn(9)) logit = chance.OneOf({infinity, -infinity, -infinity, std::nanf(""), -0.0f});
    }
  }
  return logits;
}

scheduler::SequenceStart Start(Chance& chance, int vocabulary) {
  scheduler::SequenceStart start;
  SamplingParameters& sampling = start.sampling;
  sampling.temperature = chance.OneOf({0.0f, 1e-40f, 0.1f, 0.7f, 1.0f, 1.0f, 2.0f, 1e6f});
  sampling.top_k = chance.OneOf({0, 0, 0, 1, 5, 40, vocabulary - 1, vocabulary, 3 * vocabulary});
  sampling.top_p = chance.OneOf({1.0f, 1.0f, 0.95f, 0.9f, 0.3f, 0.0f, 1e-6f, 0.9999f, 0.9999999f});
  sampling.min_p = chance.OneOf({0.0f, 0.0f, 0.0f, 0.05f, 1e-4f, 1.0f});
  sampling.seed = static_cast<std::uint64_t>(chance.Below(1 << 30)) << 20;
  const auto tokens = [&](int count) {
    std::vector<TokenId> some;
    for (int i = 0; i < count; ++i) some.push_back(chance.Below(vocabulary));
    return some;
  };
  if (chance.OneIn(3)) {
    for (const TokenId token : tokens(8))
      sampling.bias.push_back({token, chance.OneOf({-100.0f, -1.0f, 2.0f, 100.0f})});
    sampling.bias.push_back({vocabulary + 7, 3.0f});  // no token
  }
  if (chance.OneIn(3)) {
    sampling.repetition_penalty = chance.OneOf({1.0f, 1.3f, 0.8f});
    sampling.frequency_penalty = chance.OneOf({0.0f, 0.5f});
    sampling.presence_penalty = chance.OneOf({0.0f, 0.4f});
    start.prompt = tokens(6);
    start.generated = tokens(12);
  }
  start.prompt_tokens = 3;
  if (chance.OneIn(3)) {
    start.min_tokens = 10;
    start.stop_tokens = tokens(3);
  }
  start.choice = chance.Below(3);
  return start;
}

std::vector<std::uint64_t> Mask(Chance& chance, int vocabulary) {
  std::vector<std::uint64_t> allowed(static_cast<std::size_t>(vocabulary + 63) / 64);
  const int rarity = chance.OneOf({2, 20, 100000});
  for (int token = 0; token < vocabulary; ++token) {
    if (chance.OneIn(rarity)) allowed[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
  }
  return allowed;
}

TEST(ShardReading, AnyShardsAnswerAsOneToTheBit) {
  for (unsigned seed = 1; seed <= 1500; ++seed) {
    Chance chance(seed);
    const int vocabulary = chance.OneOf({1, 3, 50, 71, 1000, 4999});
    const std::vector<TokenId> borders = Borders(chance, vocabulary);
    Ranks ranks(borders, kernels::AvailablePaths());
    Sampler one(kernels::AvailablePaths().front(), vocabulary);
    for (int i = 0; i < 4; ++i) {
      const std::vector<float> logits = Logits(chance, vocabulary);
      const SamplerState state(Start(chance, vocabulary));
      const std::vector<std::uint64_t> allowed =
          chance.OneIn(4) ? Mask(chance, vocabulary) : std::vector<std::uint64_t>();
      const SampleWish wish{.position = 3 + chance.Below(20),
                            .top = chance.OneOf({0, 0, 1, 20, vocabulary}),
                            .logprob = chance.OneIn(2),
                            .allowed = allowed};
      const TokenId target = chance.Below(vocabulary);
      ASSERT_EQ(ranks.Sample(logits, state, wish), one.Sample(logits, state, wish)) << "seed " << seed << " case " << i;
      ASSERT_EQ(ranks.Score(logits, target, wish.top), one.Score(logits, target, wish.top))
          << "seed " << seed << " case " << i;
    }
  }
}

// Temperature 1 would leave out what is rare one by one and likely together.
TEST(ShardReading, MassFarBelowTheLikeliestCounts) {
  constexpr int kVocabulary = 30000;
  Chance chance(3);
  std::vector<float> logits(kVocabulary);
  for (float& logit : logits) logit = chance.OneOf({-9.98f, -10.5f, -11.0f, -11.0f + chance.Normal(0.1f)});
  logits[7] = 0.0f;
  Ranks ranks({0, 9000, 9001, kVocabulary}, kernels::AvailablePaths());
  Sampler one(kernels::AvailablePaths().front(), kVocabulary);
  for (const float top_p : {0.5f, 0.7f, 0.8f, 0.9f, 0.95f, 0.99f}) {
    scheduler::SequenceStart start;
    start.sampling.top_p = top_p;
    const SamplerState state(start);
    for (int position = 0; position < 60; ++position) {
      ASSERT_EQ(ranks.Sample(logits, state, {.position = position}), one.Sample(logits, state, {.position = position}))
          << top_p;
    }
  }
}

// A mesh would wait for messages instead of computing.
TEST(ShardReading, RoundsAndBytesAreFew) {
  constexpr int kVocabulary = 152000;
  struct Way {
    SamplingParameters parameters;
    std::size_t rounds_max, bytes_max;
  };
  const Way ways[] = {{{.temperature = 0}, 1, 64},
                      {{.temperature = 0.7f}, 2, 64},
                      {{.min_p = 0.05f}, 2, 64},
                      {{.top_k = 40}, 3, 1024},
                      {{.top_k = 40, .top_p = 0.9f}, 3, 1024},
                      {{.top_p = 0.95f}, 8, 16384},
                      {{.temperature = 0.3f, .top_p = 0.999999f}, 8, 16384}};
  Ranks ranks({0, 76000, 76000, 110001, kVocabulary}, {kernels::AvailablePaths().front()});
  Sampler one(kernels::AvailablePaths().front(), kVocabulary);
  Chance chance(5);
  for (const float deviation : {0.0f, 1e-7f, 1e-4f, 0.01f, 2.0f, 3.0f, 10.0f}) {
    std::vector<float> logits(kVocabulary);
    for (float& logit : logits) logit = chance.Normal(deviation);
    for (const Way& way : ways) {
      scheduler::SequenceStart start;
      start.sampling = way.parameters;
      const SamplerState state(start);
      SCOPED_TRACE("deviation " + std::to_string(deviation) + " p " + std::to_string(way.parameters.top_p) + " k " +
                   std::to_string(way.parameters.top_k));
      EXPECT_EQ(ranks.Sample(logits, state, {.position = 9}), one.Sample(logits, state, {.position = 9}));
      EXPECT_LE(ranks.rounds(), way.rounds_max);
      EXPECT_LE(ranks.bytes(), way.bytes_max);
      const std::size_t plain = ranks.bytes();
      EXPECT_EQ(ranks.Sample(logits, state, {.position = 9, .logprob = true}),
                one.Sample(logits, state, {.position = 9, .logprob = true}));
      EXPECT_LE(ranks.bytes(), plain + 16);
    }
  }
}

// A rank that sends rubbish would end the others, or make them read elsewhere.
TEST(ShardReading, RubbishFromOtherRanksGivesSomeToken) {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    Chance chance(seed);
    constexpr int kVocabulary = 900;
    const VocabularyShards shards{{0, 300, 300, kVocabulary}, chance.OneOf({0, 1, 2})};
    const auto self = static_cast<std::size_t>(shards.self);
    const std::vector<float> all = Logits(chance, kVocabulary);
    const std::span<const float> logits = std::span(all).subspan(static_cast<std::size_t>(shards.first[self]),
                                                                 static_cast<std::size_t>(shards.SizeOf(self)));
    const SamplerState state(Start(chance, kVocabulary));
    Sieve sieve(kernels::AvailablePaths().front());
    ShardReading reading;
    reading.BeginSample(shards, logits, state, {.position = 5, .top = 5});
    int rounds = 0;
    while (const std::size_t bytes = reading.message_bytes()) {
      ASSERT_LT(++rounds, 20);
      ASSERT_LE(bytes, 16384u);
      std::vector<std::byte> messages(3 * bytes);
      for (std::byte& byte : messages) byte = static_cast<std::byte>(chance.OneIn(3) ? 0 : chance.Below(256));
      reading.Write(sieve, std::span(messages).subspan(self * bytes, bytes));
      reading.Read(sieve, messages.data(), bytes);
    }
    EXPECT_GE(reading.scored().token, 0);
    EXPECT_LT(reading.scored().token, kVocabulary);
  }
}

}  // namespace
}  // namespace skein::engine
