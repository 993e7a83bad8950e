// SPDX-License-Identifier: Apache-2.0
//
// Who comes in: admission, what is found in the prefix index at that moment, and what is entered there later.
#include <algorithm>

#include "base/check.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"

namespace skein::scheduler {
namespace {

// Below so many tokens computing again is cheaper than waiting for a step of others.
constexpr std::int32_t kPrefixWaitTokens = 64;
// Nobody waits for another's prompt longer than so many steps in all.
constexpr std::int32_t kPrefixWaitSteps = 512;

}  // namespace

std::size_t Scheduler::RunningCount() const {
  return static_cast<std::size_t>(std::ranges::count_if(running_, [](const Sequence* each) { return each->running; }));
}

// Running sequences that get rows.
std::uint32_t Scheduler::GoingOn() const {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(running_, [](const Sequence* each) { return each->running && !each->paused; }));
}

// Blocks left free at admission, so that nobody is preempted right away: a sequence takes one in 16 steps, so one for
// eight sequences lasts for two steps. More would leave memory idle for the sake of answers that may end before they need it.
std::uint32_t Scheduler::Reserve() const { return (GoingOn() + 7) / 8; }

// When the first one waiting finds no room and outranks some of those that run, they give way, before the plan has rows
// for them. All or nothing: nobody gives way when that would not make enough room. Those in flight do so later, and the
// first one waits for them.
void Scheduler::MakeWay() {
  Sequence* first = nullptr;
  for (Sequence* sequence : waiting_) {
    if (sequence->paused) continue;
    first = sequence;
    break;
  }
  const Sequence* last = LastInOrder(/*paused=*/false);
  if (first == nullptr || last == nullptr || !policy_.Outranks(first->candidate, last->candidate)) return;
  FindPrefix(*first);
  if (WaitsForPrefix(*first)) return;
  const auto found = static_cast<std::uint32_t>(found_.size());
  const std::uint32_t own = BlocksFor(first->size()) - found;
  std::uint32_t coming = 0;   // blocks of those that are in flight: they give way once they are back
  std::size_t leaving = 0;    // and their places
  const auto fits = [&] {
    return RunningCount() - leaving < static_cast<std::size_t>(limits_.sequences) &&
           pool_.available_count() - CachedFound() + coming >= own + Reserve();
  };
  std::uint32_t gain = 0;
  for (const Sequence* sequence : running_) {
    if (sequence->paused || policy_.Outranks(first->candidate, sequence->candidate)) gain += sequence->table.SoleCount();
  }
  if (pool_.available_count() - CachedFound() + gain < own) return;
  while (!fits()) {
    Sequence* victim = LastInOrder(/*paused=*/true);
    if (victim == nullptr) {
      victim = LastInOrder(/*paused=*/false);
      if (victim == nullptr || !policy_.Outranks(first->candidate, victim->candidate)) return;
    }
    if (victim->rows_in_flight > 0) {
      coming += victim->table.SoleCount();
      ++leaving;
    }
    GiveWay(*victim);
  }
}

// One that finds no room holds up those behind it, so that it is not overtaken for ever; one that only waits for its
// prefix does not.
Scheduler::Admission Scheduler::TryAdmit(Sequence& sequence) {
  FindPrefix(sequence);
  if (WaitsForPrefix(sequence)) {
    ++sequence.prefix_waits;
    ++counts_.prefix_waits;
    return Admission::kLater;
  }
  sequence.taken = static_cast<std::int32_t>(found_.size()) * limits_.block_tokens;
  const Chunk chunk = NextChunk(sequence);
  sequence.taken = 0;
  if (chunk.count == 0) return Admission::kFull;
  const std::uint32_t blocks = BlocksFor(sequence.size());
  const std::uint32_t own = blocks - static_cast<std::uint32_t>(found_.size());
  for (;;) {
    const std::uint32_t available = pool_.available_count() - CachedFound();
    if (RunningCount() < static_cast<std::size_t>(limits_.sequences) && available >= own + Reserve()) break;
    Sequence* paused = LastInOrder(/*paused=*/true);
    if (paused == nullptr) {
      if (GoingOn() == 0 && available >= own) break;
      return Admission::kFull;
    }
    if (!GiveWay(*paused)) return Admission::kFull;
  }
  Admit(sequence, blocks);
  AddRow(sequence, chunk);
  return Admission::kDone;
}

void Scheduler::Admit(Sequence& sequence, std::uint32_t blocks) {
  // Room for the whole answer now, so that steps need none.
  const std::int64_t size_max =
      std::min<std::int64_t>(capacity_, std::max<std::int64_t>(sequence.size(), std::int64_t{sequence.state.prompt_tokens} +
                                                                                    sequence.state.max_tokens));
  sequence.state.tokens.reserve(static_cast<std::size_t>(size_max));
  sequence.table.Reserve(BlocksFor(size_max));
  if (index_ != nullptr) sequence.hashes.reserve(BlocksFor(size_max));
  for (const BlockId block : found_) sequence.table.AppendShared(block);
  const bool grown = sequence.table.TryGrow(blocks);
  SKEIN_CHECK(grown);
  sequence.indexed = static_cast<std::uint32_t>(found_.size());
  sequence.computed = static_cast<std::int32_t>(found_.size()) * limits_.block_tokens;
  sequence.taken = sequence.computed;
  sequence.running = true;
  // It may still be there when it gave way in this very plan.
  if (std::ranges::find(running_, &sequence) == running_.end()) running_.push_back(&sequence);
  if (sequence.cached_tokens < 0) {
    sequence.cached_tokens = std::min(sequence.computed, sequence.state.prompt_tokens);
    if (index_ != nullptr && sequence.reads_prefixes()) {
      counts_.prefix_queries += static_cast<std::uint64_t>(sequence.size());
      counts_.prefix_hits += static_cast<std::uint64_t>(sequence.computed);
    }
  }
  const std::int32_t paid = std::max(sequence.charged, sequence.computed);
  sequence.tenant->service += static_cast<std::uint64_t>(std::max(0, sequence.size() - paid)) * Tenants::kPromptToken;
  sequence.charged = std::max(paid, sequence.size());
}

void Scheduler::ExtendHashes(Sequence& sequence) const {
  const auto block_tokens = static_cast<std::size_t>(limits_.block_tokens);
  const std::span<const TokenId> tokens(sequence.state.tokens);
  std::uint64_t hash = sequence.hashes.empty() ? sequence.root.low : sequence.hashes.back();
  for (std::size_t i = sequence.hashes.size(); (i + 1) * block_tokens <= tokens.size(); ++i) {
    hash = index_->HashOf(hash, tokens.subspan(i * block_tokens, block_tokens));
    sequence.hashes.push_back(hash);
  }
}

// The blocks of the index that the sequence begins with, into found_. At least its last token is left to be computed.
void Scheduler::FindPrefix(Sequence& sequence) {
  found_.clear();
  if (index_ == nullptr) return;
  ExtendHashes(sequence);
  if (!sequence.reads_prefixes()) return;
  const auto block_tokens = static_cast<std::size_t>(limits_.block_tokens);
  const std::span<const TokenId> tokens(sequence.state.tokens);
  PrefixPlace place{.root = sequence.root, .parent = std::nullopt, .hash = 0};
  for (std::size_t i = 0; (i + 1) * block_tokens < tokens.size(); ++i) {
    place.hash = sequence.hashes[i];
    place.parent = index_->Find(place, tokens.subspan(i * block_tokens, block_tokens));
    if (!place.parent) return;
    found_.push_back(*place.parent);
  }
}

// Blocks of found_ that nobody holds: they count as available until they are shared.
std::uint32_t Scheduler::CachedFound() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(found_, [this](BlockId block) { return pool_.holders(block) == 0; }));
}

// Whether a running sequence is about to compute at least kPrefixWaitTokens of this one's prefix behind found_. Equal
// chained hashes mean equal prefixes; a collision costs some steps of waiting and nothing else.
bool Scheduler::WaitsForPrefix(Sequence& sequence) const {
  if (index_ == nullptr || !sequence.reads_prefixes() || sequence.prefix_waits >= kPrefixWaitSteps) return false;
  const std::size_t last = found_.size() + BlocksFor(kPrefixWaitTokens) - 1;
  if ((last + 1) * static_cast<std::size_t>(limits_.block_tokens) >= sequence.state.tokens.size()) return false;
  return std::ranges::any_of(running_, [&](const Sequence* other) {
    return other->running && !other->paused && other->ends == FinishReason::kNone && other->indexed <= last && last < other->hashes.size() &&
           other->hashes[last] == sequence.hashes[last];
  });
}

// Enters the blocks that have become full. Where another sequence was first with the same tokens, this one holds that
// block from now on instead of its own: the bits are the same, memory is saved, and its further blocks stay reachable. Plans
// in flight may read its own one, so the exchange waits until none has a row of it.
void Scheduler::IndexComputed(Sequence& sequence) {
  if (index_ == nullptr) return;
  ExtendHashes(sequence);
  const auto block_tokens = static_cast<std::uint32_t>(limits_.block_tokens);
  const std::span<const TokenId> tokens(sequence.state.tokens);
  const std::uint32_t full = static_cast<std::uint32_t>(sequence.computed) / block_tokens;
  for (; sequence.indexed < full; ++sequence.indexed) {
    const std::uint32_t i = sequence.indexed;
    const PrefixPlace place{.root = sequence.root,
                            .parent = i == 0 ? std::nullopt : std::optional(sequence.table.block(i - 1)),
                            .hash = sequence.hashes[i]};
    const auto own = tokens.subspan(std::size_t{i} * block_tokens, block_tokens);
    if (const auto there = index_->Find(place, own)) {
      if (sequence.rows_in_flight > 0) return;
      sequence.table.Replace(i, *there);
      sequence.blocks_sent = std::min(sequence.blocks_sent, i);
    } else {
      index_->Insert(sequence.table.block(i), place, own);
    }
  }
}

}  // namespace skein::scheduler
