// SPDX-License-Identifier: Apache-2.0
#include "engine/sharded_sampler.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace skein::engine {

using kernels::Candidate;
using kernels::IsBetter;

namespace {

constexpr float kNone = -HUGE_VALF;
constexpr Candidate kNoCandidate{kNone, INT_MAX};

// Buckets of z, kScale for 1 of it. Below -28 nothing has mass.
constexpr float kScale = 32.0f, kUsualTail = -10.0f;
constexpr std::size_t kTailBegin = 320, kTailEnd = 896;
static_assert(kTailBegin == static_cast<std::size_t>(-kUsualTail * kScale) && kTailEnd < kernels::kMassBuckets);

constexpr int kPartBits = 8;  // of keys
constexpr std::size_t kParts = 1 << kPartBits;
constexpr std::size_t kBorderMax = 512;  // tokens of a shard at the border that are sent rather than divided again

// What messages begin with.
struct LargestPart {
  float value;         // adjusted, where a token is chosen
  std::int32_t token;  // that has it; greedy only
  float raw;           // where log-probabilities are wanted
};
struct WinnerPart {
  float score;
  std::int32_t token;
};
struct LogprobPart {
  std::uint64_t mass;
  float logit;  // of the token, from the shard that has it
  float unused;
};

template <typename T>
T Take(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
void Put(const T& value, std::span<std::byte> message) {
  SKEIN_CHECK(sizeof(T) <= message.size());
  std::memcpy(message.data(), &value, sizeof(T));
}

std::uint32_t KeyOf(float magnitude) { return std::bit_cast<std::uint32_t>(magnitude); }
float ZOf(std::uint32_t key) { return -std::bit_cast<float>(key); }

}  // namespace

std::int32_t VocabularyShards::LargestSize() const {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < count(); ++i) largest = std::max(largest, SizeOf(i));
  return largest;
}

class ShardReading::Messages {
 public:
  Messages(const std::byte* first, std::size_t stride, std::size_t count, std::size_t bytes)
      : first_(first), stride_(stride), count_(count), bytes_(bytes) {}
  std::size_t count() const { return count_; }
  template <typename T>
  T At(std::size_t shard, std::size_t offset = 0) const {
    return Take<T>(first_ + shard * stride_ + offset);
  }
  // The candidates behind `offset` in all of them.
  void Candidates(std::size_t offset, std::vector<Candidate>& into) const {
    into.clear();
    for (std::size_t shard = 0; shard < count_; ++shard) {
      for (std::size_t at = offset; at + sizeof(Candidate) <= bytes_; at += sizeof(Candidate)) {
        const auto candidate = At<Candidate>(shard, at);
        if (candidate.token == INT_MAX) break;
        into.push_back(candidate);
      }
    }
  }

 private:
  const std::byte* first_;
  std::size_t stride_, count_, bytes_;
};

int ShardReading::Keys::Shift() const {
  return std::max(0, static_cast<int>(std::bit_width(last - first)) - kPartBits);
}

void ShardReading::Begin(const VocabularyShards& shards, std::span<const float> logits) {
  SKEIN_CHECK(logits.size() == static_cast<std::size_t>(shards.SizeOf(static_cast<std::size_t>(shards.self))));
  shards_ = &shards;
  logits_ = logits;
  state_ = nullptr;
  wish_ = {};
  copied_ = false;
  scored_ = {};
  round_ = Round::kLargest;
}

void ShardReading::BeginSample(const VocabularyShards& shards, std::span<const float> logits, const SamplerState& state,
                               const SampleWish& wish) {
  Begin(shards, logits);
  state_ = &state;
  wish_ = wish;
}

void ShardReading::BeginScore(const VocabularyShards& shards, std::span<const float> logits, TokenId target,
                              std::int32_t top) {
  Begin(shards, logits);
  wish_ = {.top = top, .logprob = true};
  scored_.token = target;
}

std::size_t ShardReading::TopCount() const {
  return static_cast<std::size_t>(std::clamp(wish_.top, 0, shards_->LargestSize()));
}

std::size_t ShardReading::RankCount() const {
  return static_cast<std::size_t>(std::min(state_->parameters().top_k, shards_->LargestSize()));
}

std::size_t ShardReading::message_bytes() const {
  constexpr std::size_t kMass = sizeof(std::uint64_t);
  switch (round_) {
    case Round::kLargest:
      return sizeof(LargestPart) + TopCount() * sizeof(Candidate);
    case Round::kBest:
      return RankCount() * sizeof(Candidate);
    case Round::kBuckets:
      return (1 + kTailBegin) * kMass;
    case Round::kTail:
      return (kTailEnd - kTailBegin) * kMass;
    case Round::kKeys:
      return kParts * kMass;
    case Round::kBorder:
      return border_count_ * sizeof(Candidate);
    case Round::kWinner:
      return sizeof(WinnerPart);
    case Round::kLogprob:
      return sizeof(LogprobPart);
    case Round::kDone:
      break;
  }
  return 0;
}

void ShardReading::Write(Sieve& sieve, std::span<std::byte> message) {
  SKEIN_CHECK(message.size() == message_bytes());
  switch (round_) {
    case Round::kLargest:
      return WriteLargest(sieve, message);
    case Round::kBest:
      return WriteCandidates(sieve.Best(Scaled(sieve), RankCount()), message);
    case Round::kBuckets:
      Scaled(sieve);
      return WriteBuckets(sieve, message);
    case Round::kTail:
      return WriteTail(sieve, message);
    case Round::kKeys:
      return WriteKeys(sieve, message);
    case Round::kBorder: {
      // What has no mass is not where a mass is reached.
      const std::span<Candidate> within = Within(sieve, keys_);
      const auto end =
          std::remove_if(within.begin(), within.end(), [&](const Candidate& c) { return sieve.MassOf(c.z) == 0; });
      return WriteCandidates({within.begin(), end}, message);
    }
    case Round::kWinner:
      return WriteWinner(sieve, message);
    case Round::kLogprob:
      return WriteLogprob(sieve, message);
    case Round::kDone:
      return;
  }
}

void ShardReading::Read(Sieve& sieve, const std::byte* first, std::size_t stride) {
  const Messages messages(first, stride, shards_->count(), message_bytes());
  switch (round_) {
    case Round::kLargest:
      return ReadLargest(sieve, messages);
    case Round::kBest:
      return ReadBest(sieve, messages);
    case Round::kBuckets:
      return ReadBuckets(sieve, messages);
    case Round::kTail:
      TakePart(messages, 0, kTailEnd - kTailBegin);
      return Narrow(sieve, BucketKeys(kTailBegin + part_));
    case Round::kKeys:
      return ReadKeys(sieve, messages);
    case Round::kBorder:
      messages.Candidates(0, gathered_);
      return DrawFrom(sieve, sieve.WorstOfMass(gathered_, needed_));
    case Round::kWinner:
      return ReadWinner(messages);
    case Round::kLogprob:
      return ReadLogprob(sieve, messages);
    case Round::kDone:
      return;
  }
}

// ---- The largest logit, and what is likeliest
// -------------------------------------------------------------------------------------------

void ShardReading::WriteLargest(Sieve& sieve, std::span<std::byte> message) {
  LargestPart part{kNone, INT_MAX, kNone};
  const int n = static_cast<int>(logits_.size());
  const bool adjusts = state_ != nullptr && state_->Adjusts(wish_);
  const auto take_first_largest = [&](std::span<const float> values) {
    if (values.empty()) return;
    const int token = sieve.rows().argmax(values.data(), n);
    const float value = values[static_cast<std::size_t>(token)];
    if (!std::isnan(value)) part = {value, first_token() + token, kNone};
  };
  if (state_ != nullptr && state_->greedy() && !adjusts) {
    take_first_largest(logits_);
  } else if (state_ != nullptr) {
    const Sieve::FiniteLogits finite = sieve.Finite(logits_);
    part.value = finite.largest;
    copied_ = adjusts || finite.values.data() != logits_.data();
    if (copied_) z_.assign(finite.values.begin(), finite.values.end());
    if (adjusts) {
      state_->Adjust(wish_, first_token(), z_);
      part.value = sieve.rows().max(z_.data(), n);
    }
    if (state_->greedy()) take_first_largest(z_);
  }
  if (wants_logprob()) {
    const Sieve::FiniteLogits finite = sieve.Finite(logits_);
    part.raw = finite.largest;
    if (TopCount() > 0) WriteCandidates(sieve.Best(finite.values, TopCount()), message.subspan(sizeof part));
  }
  Put(part, message);
}

void ShardReading::ReadLargest(Sieve& sieve, const Messages& messages) {
  Candidate best = kNoCandidate;
  float raw = kNone;
  for (std::size_t i = 0; i < messages.count(); ++i) {
    const auto part = messages.At<LargestPart>(i);
    if (IsBetter({part.value, part.token}, best)) best = {part.value, part.token};
    raw = std::max(raw, part.raw);
  }
  if (wants_logprob()) {
    raw_largest_ = raw;
    messages.Candidates(sizeof(LargestPart), gathered_);
    top_.clear();
    if (wish_.top > 0) {
      const std::span<Candidate> top = Sieve::Best(gathered_, static_cast<std::size_t>(wish_.top));
      std::sort(top.begin(), top.end(), IsBetter);
      top_.assign(top.begin(), top.end());
    }
  }
  if (state_ == nullptr) return Choose(scored_.token);
  if (state_->greedy() && !state_->Adjusts(wish_)) return Choose(best.z > -FLT_MAX ? best.token : 0);
  if (best.z == kNone) return Choose(TokenOfLastResort(wish_.allowed, shards_->vocabulary()));
  if (state_->greedy()) return Choose(best.token);
  largest_ = best.z;
  if (LimitsRank(state_->parameters(), shards_->vocabulary())) {
    round_ = Round::kBest;
  } else if (state_->parameters().top_p < 1.0f) {
    round_ = Round::kBuckets;
  } else {
    // Nobody needs z before the draw.
    Scaled(sieve);
    DrawFrom(sieve, kernels::kWorstOfAll);
  }
}

// z_ = z. Once for a reading.
std::span<float> ShardReading::Scaled(Sieve& sieve) {
  z_.resize(logits_.size());
  const float* from = copied_ ? z_.data() : logits_.data();
  sieve.logits().scale(from, largest_, state_->parameters().temperature, static_cast<int>(z_.size()), z_.data());
  return z_;
}

void ShardReading::WriteCandidates(std::span<const Candidate> candidates, std::span<std::byte> message) const {
  const std::size_t room = message.size() / sizeof(Candidate);
  SKEIN_CHECK(candidates.size() <= room);
  for (std::size_t i = 0; i < room; ++i, message = message.subspan(sizeof(Candidate))) {
    if (i < candidates.size())
      Put(Candidate{candidates[i].z, first_token() + candidates[i].token}, message);
    else
      Put(kNoCandidate, message);
  }
}

void ShardReading::ReadBest(Sieve& sieve, const Messages& messages) {
  messages.Candidates(0, gathered_);
  const scheduler::SamplingParameters& parameters = state_->parameters();
  const std::span<Candidate> best = Sieve::Best(gathered_, static_cast<std::size_t>(parameters.top_k));
  if (parameters.top_p < 1.0f)
    return DrawFrom(sieve, sieve.WorstOfMass(best, PartOf(sieve.MassOf(best), parameters.top_p)));
  DrawFrom(sieve, best.empty() ? kernels::kWorstOfAll : *std::max_element(best.begin(), best.end(), IsBetter));
}

// ---- Top-p: where the mass is reached
// ---------------------------------------------------------------------------------------------------

void ShardReading::WriteBuckets(Sieve& sieve, std::span<std::byte> message) const {
  std::array<std::uint64_t, kernels::kMassBuckets> buckets{};
  sieve.logits().weigh(z_.data(), 0.0f, kScale, kUsualTail, static_cast<int>(z_.size()), buckets.data());
  std::uint64_t mass = 0;
  for (const std::uint64_t bucket : buckets) mass += bucket;
  Put(mass, message);
  std::memcpy(message.data() + sizeof mass, buckets.data(), message.size() - sizeof mass);
}

void ShardReading::WriteTail(Sieve& sieve, std::span<std::byte> message) const {
  std::array<std::uint64_t, kernels::kMassBuckets> buckets{};
  sieve.logits().weigh(z_.data(), 0.0f, kScale, -FLT_MAX, static_cast<int>(z_.size()), buckets.data());
  std::memcpy(message.data(), buckets.data() + kTailBegin, message.size());
}

// part_ = the first part in which the mass is reached, the last one if in none; takes off needed_ what is before it.
// Returns whether it is.
bool ShardReading::TakePart(const Messages& messages, std::size_t offset, std::size_t parts) {
  shard_masses_.resize(messages.count());
  for (part_ = 0;; ++part_) {
    std::uint64_t mass = 0;
    for (std::size_t i = 0; i < messages.count(); ++i) {
      shard_masses_[i] = messages.At<std::uint64_t>(i, offset + part_ * sizeof mass);
      mass += shard_masses_[i];
    }
    if (mass >= needed_) return true;
    if (part_ + 1 == parts) {
      beyond_ = needed_ - mass;
      return false;
    }
    needed_ -= mass;
  }
}

ShardReading::Keys ShardReading::BucketKeys(std::size_t bucket) {
  return {KeyOf(static_cast<float>(bucket) / kScale), KeyOf(static_cast<float>(bucket + 1) / kScale) - 1};
}

void ShardReading::ReadBuckets(Sieve& sieve, const Messages& messages) {
  std::uint64_t mass = 0;
  for (std::size_t i = 0; i < messages.count(); ++i) mass += messages.At<std::uint64_t>(i);
  needed_ = PartOf(mass, state_->parameters().top_p);
  if (TakePart(messages, sizeof mass, kTailBegin)) return Narrow(sieve, BucketKeys(part_));
  needed_ = beyond_;
  round_ = Round::kTail;
}

std::span<Candidate> ShardReading::Within(Sieve& sieve, Keys keys) const {
  return sieve.Between(z_, ZOf(keys.last), ZOf(keys.first));
}

void ShardReading::WriteKeys(Sieve& sieve, std::span<std::byte> message) const {
  std::array<std::uint64_t, kParts> parts{};
  const int shift = keys_.Shift();
  for (const Candidate& candidate : Within(sieve, keys_)) {
    parts[(KeyOf(std::fabs(candidate.z)) - keys_.first) >> shift] += sieve.MassOf(candidate.z);
  }
  std::memcpy(message.data(), parts.data(), message.size());
}

void ShardReading::ReadKeys(Sieve& sieve, const Messages& messages) {
  TakePart(messages, 0, kParts);
  const int shift = keys_.Shift();
  const std::uint32_t first = std::min(keys_.last, keys_.first + (static_cast<std::uint32_t>(part_) << shift));
  Narrow(sieve, {first, std::min(keys_.last, first + ((1u << shift) - 1))});
}

// The mass is reached among tokens of these keys, of which shard_masses_ tells the mass.
void ShardReading::Narrow(Sieve& sieve, Keys keys) {
  keys_ = keys;
  if (keys.first == keys.last) return DrawFrom(sieve, WorstOfEqual(sieve));
  // Each of them has at least the mass of the worst, but for what exp's last bit and its rounding to an integer may do.
  const std::uint64_t least = sieve.MassOf(ZOf(keys.last));
  const std::uint64_t each = std::max<std::uint64_t>(least - std::min(least, (least >> 20) + 1), 1);
  const std::uint64_t count = *std::max_element(shard_masses_.begin(), shard_masses_.end()) / each;
  border_count_ =
      static_cast<std::size_t>(std::min<std::uint64_t>(count, static_cast<std::uint64_t>(shards_->LargestSize())));
  if (border_count_ == 0) return DrawFrom(sieve, kernels::kWorstOfAll);  // only where messages contradict each other
  round_ = border_count_ <= kBorderMax ? Round::kBorder : Round::kKeys;
}

// Of tokens whose z are equal the lower ids are better, so shards are in order: those before the border keep all of
// them, those behind it none.
Candidate ShardReading::WorstOfEqual(Sieve& sieve) const {
  const float z = ZOf(keys_.first);
  const std::uint64_t each = std::max<std::uint64_t>(sieve.MassOf(z), 1);
  std::uint64_t index = needed_ == 0 ? 0 : (needed_ - 1) / each;  // of the worst one kept
  for (std::size_t i = 0; i < static_cast<std::size_t>(shards_->self); ++i) {
    const std::uint64_t count = shard_masses_[i] / each;
    if (index < count) return {z, -1};
    index -= count;
  }
  const std::span<Candidate> equal = Within(sieve, keys_);
  if (index >= equal.size()) return {z, INT_MAX};
  return {z, first_token() + equal[static_cast<std::size_t>(index)].token};
}

// ---- The draw, and log-probabilities
// ----------------------------------------------------------------------------------------------------

void ShardReading::DrawFrom(Sieve& sieve, Candidate worst) {
  worst_ = WorstOfMinP(sieve.rows(), state_->parameters().min_p, worst);
  round_ = Round::kWinner;
}

void ShardReading::WriteWinner(Sieve& sieve, std::span<std::byte> message) const {
  const kernels::DrawnToken drawn = sieve.logits().draw(z_.data(), first_token(), static_cast<int>(z_.size()), worst_,
                                                        state_->NoiseAt(wish_.position));
  Put(WinnerPart{drawn.score, drawn.token}, message);
}

void ShardReading::ReadWinner(const Messages& messages) {
  Candidate best = kNoCandidate;  // by score
  for (std::size_t i = 0; i < messages.count(); ++i) {
    const auto part = messages.At<WinnerPart>(i);
    if (IsBetter({part.score, part.token}, best)) best = {part.score, part.token};
  }
  Choose(best.token);
}

void ShardReading::Choose(TokenId token) {
  scored_.token = std::clamp(token, 0, shards_->vocabulary() - 1);  // other ranks had a say
  round_ = wants_logprob() ? Round::kLogprob : Round::kDone;
}

void ShardReading::WriteLogprob(Sieve& sieve, std::span<std::byte> message) const {
  const std::span<const float> finite = sieve.Finite(logits_).values;
  LogprobPart part{sieve.logits().mass(finite.data(), raw_largest_, static_cast<int>(finite.size())), 0, 0};
  const TokenId place = scored_.token - first_token();
  if (place >= 0 && static_cast<std::size_t>(place) < finite.size())
    part.logit = finite[static_cast<std::size_t>(place)];
  Put(part, message);
}

void ShardReading::ReadLogprob(Sieve& sieve, const Messages& messages) {
  std::uint64_t mass = 0;
  float logit = 0;
  for (std::size_t i = 0; i < messages.count(); ++i) {
    const auto part = messages.At<LogprobPart>(i);
    mass += part.mass;
    if (scored_.token >= shards_->first[i] && scored_.token < shards_->first[i + 1]) logit = part.logit;
  }
  const LogprobScale scale(sieve.rows(), raw_largest_, mass);
  scored_.logprob = scale.Of(logit);
  scored_.top.reserve(top_.size());
  for (const Candidate& candidate : top_) scored_.top.push_back({candidate.token, scale.Of(candidate.z)});
  round_ = Round::kDone;
}

}  // namespace skein::engine
