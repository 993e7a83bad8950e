// SPDX-License-Identifier: Apache-2.0
//
// ShardReading is what Sampler is for ranks that have a part of the vocabulary each: one output of a step on one of
// them. It goes in rounds. In each the rank writes a message about its own logits, the messages of all ranks are
// gathered, and every rank reads all of them and comes to the same decision, so that nothing has to be told. Logits do
// not travel:
//
//   round        message                                          when
//   kLargest     the largest logit, the likeliest tokens           always; the end of greedy
//   kBest        the k best tokens                                 top-k
//   kBuckets     masses of z by 1/32, from 0 to -10                top-p alone
//   kTail        those below                                       … of flat distributions
//   kKeys        masses of 256 parts of the bucket in which        … while it has too many tokens to send
//                the mass is reached
//   kBorder      its tokens                                        top-p alone
//   kWinner      the token with the best score                     random draws
//   kLogprob     the mass of the raw logits, the token's logit     log-probabilities wanted
//
// The result has the bits of Sampler's with the whole vocabulary: the largest of the largest is the largest, masses are
// integers, tokens have one order and noise is keyed by them (sampler.h).
//
// Thread rule: different workers may serve different readings at once; a Sieve is a worker's. Memory grows to the
// largest step, then stays.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "engine/sampler.h"
#include "engine/sampler_sieve.h"
#include "scheduler/step_plan.h"

namespace skein::engine {

// Who has which tokens: the same on all ranks but for `self`.
struct VocabularyShards {
  std::vector<TokenId> first = {0, 0};  // [shards + 1], not falling: where each begins; then the vocabulary's size
  int self = 0;
  std::size_t count() const { return first.size() - 1; }
  std::int32_t vocabulary() const { return first.back(); }
  std::int32_t SizeOf(std::size_t shard) const { return first[shard + 1] - first[shard]; }
  std::int32_t LargestSize() const;
};

class ShardReading {
 public:
  // What Sampler::Sample and Sampler::Score are asked; `logits` are this shard's. All arguments live until the reading
  // is done.
  void BeginSample(const VocabularyShards& shards, std::span<const float> logits, const SamplerState& state,
                   const SampleWish& wish);
  void BeginScore(const VocabularyShards& shards, std::span<const float> logits, TokenId target, std::int32_t top);

  // Bytes of a message in the round to come, on all ranks the same; 0: there is no further round.
  std::size_t message_bytes() const;
  void Write(Sieve& sieve, std::span<std::byte> message);
  // The messages of all shards, in order: shard i's begins at i * stride. What they say is not trusted further than to
  // be some answer.
  void Read(Sieve& sieve, const std::byte* messages, std::size_t stride);

  // Requires: no further round.
  const scheduler::ScoredToken& scored() const { return scored_; }
  scheduler::ScoredToken TakeScored() { return std::move(scored_); }

 private:
  enum class Round { kLargest, kBest, kBuckets, kTail, kKeys, kBorder, kWinner, kLogprob, kDone };
  // Numbers z between -high and -low, as bits of -z: a better token has a smaller key.
  struct Keys {
    std::uint32_t first, last;
    int Shift() const;  // from a key's distance from the first one to its part
  };
  class Messages;

  void Begin(const VocabularyShards& shards, std::span<const float> logits);
  bool wants_logprob() const { return wish_.logprob || wish_.top > 0; }
  TokenId first_token() const { return shards_->first[static_cast<std::size_t>(shards_->self)]; }
  std::size_t TopCount() const;
  std::size_t RankCount() const;

  void WriteLargest(Sieve& sieve, std::span<std::byte> message);
  void WriteCandidates(std::span<const kernels::Candidate> candidates, std::span<std::byte> message) const;
  void WriteBuckets(Sieve& sieve, std::span<std::byte> message) const;
  void WriteTail(Sieve& sieve, std::span<std::byte> message) const;
  void WriteKeys(Sieve& sieve, std::span<std::byte> message) const;
  void WriteWinner(Sieve& sieve, std::span<std::byte> message) const;
  void WriteLogprob(Sieve& sieve, std::span<std::byte> message) const;

  void ReadLargest(Sieve& sieve, const Messages& messages);
  void ReadBest(Sieve& sieve, const Messages& messages);
  void ReadBuckets(Sieve& sieve, const Messages& messages);
  void ReadKeys(Sieve& sieve, const Messages& messages);
  void ReadWinner(const Messages& messages);
  void ReadLogprob(Sieve& sieve, const Messages& messages);

  std::span<float> Scaled(Sieve& sieve);
  static Keys BucketKeys(std::size_t bucket);
  std::span<kernels::Candidate> Within(Sieve& sieve, Keys keys) const;
  bool TakePart(const Messages& messages, std::size_t offset, std::size_t parts);
  void Narrow(Sieve& sieve, Keys keys);
  kernels::Candidate WorstOfEqual(Sieve& sieve) const;
  void DrawFrom(Sieve& sieve, kernels::Candidate worst);
  void Choose(TokenId token);

  const VocabularyShards* shards_ = nullptr;
  std::span<const float> logits_;
  const SamplerState* state_ = nullptr;  // null: a score
  SampleWish wish_;
  Round round_ = Round::kDone;
  scheduler::ScoredToken scored_;

  std::vector<float>
      z_;  // first the adjusted logits, where they are not the logits themselves; what is forbidden is -infinity
  bool copied_ = false;  // they are in z_
  float largest_ = 0, raw_largest_ = 0;
  std::vector<kernels::Candidate> gathered_;  // of all shards
  std::vector<kernels::Candidate> top_;       // the likeliest in order, with raw logits

  std::uint64_t
      needed_ = 0,
      beyond_ = 0;  // of the mass that top-p wants, what the part with the border has to give; what is behind all parts
  std::size_t part_ = 0;                     // the one in which the border is
  std::vector<std::uint64_t> shard_masses_;  // of it
  Keys keys_ = {};
  std::size_t border_count_ = 0;   // tokens that a shard has there, at most
  kernels::Candidate worst_ = {};  // that is kept
};

}  // namespace skein::engine
