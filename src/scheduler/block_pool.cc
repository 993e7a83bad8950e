// SPDX-License-Identifier: Apache-2.0
//
// Four bits for each frame say which of its slots are free; two sets of frames say where to look.
#include "scheduler/block_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace skein::scheduler {
namespace {

constexpr std::uint8_t kWhole = (1u << BlockPool::kFrameBlocks) - 1;

// To get a whole frame, at most so many blocks are taken from the cache: two frames' worth. Blocks of one sequence are let
// go together, so the first four mostly are one frame.
constexpr std::uint32_t kEvictionsForAFrame = 8;

}  // namespace

void BlockPool::FrameSet::Set(std::uint32_t frame, bool is_in) {
  std::uint64_t& word = words_[frame / 64];
  const std::uint64_t bit = std::uint64_t{1} << (frame % 64);
  if (((word & bit) != 0) == is_in) return;
  word ^= bit;
  is_in ? ++count_ : --count_;
  if (is_in) first_ = std::min(first_, std::size_t{frame} / 64);
}

std::uint32_t BlockPool::FrameSet::Lowest() {
  SKEIN_CHECK(count_ > 0);
  while (words_[first_] == 0) ++first_;
  return static_cast<std::uint32_t>(first_ * 64) + static_cast<std::uint32_t>(std::countr_zero(words_[first_]));
}

BlockPool::BlockPool(std::uint32_t block_count, PrefixIndex* index)
    : block_count_(block_count),
      index_(index),
      free_slots_(block_count / kFrameBlocks + 1, 0),
      whole_(block_count / kFrameBlocks + 1),
      partial_(block_count / kFrameBlocks + 1),
      holders_(block_count, 0),
      older_(std::size_t{block_count} + 1, block_count),
      newer_(std::size_t{block_count} + 1, block_count) {
  for (std::uint32_t i = 0; i < block_count; ++i) SetFree({i}, true);
}

bool BlockPool::IsFree(BlockId block) const {
  SKEIN_CHECK(block.value < block_count_);
  return ((free_slots_[block.value / kFrameBlocks] >> (block.value % kFrameBlocks)) & 1) != 0;
}

void BlockPool::SetFree(BlockId block, bool is_free) {
  SKEIN_CHECK(IsFree(block) != is_free);
  const std::uint32_t frame = block.value / kFrameBlocks;
  std::uint8_t& slots = free_slots_[frame];
  slots ^= static_cast<std::uint8_t>(1u << (block.value % kFrameBlocks));
  is_free ? ++free_count_ : --free_count_;
  whole_.Set(frame, slots == kWhole);
  partial_.Set(frame, slots != kWhole && slots != 0);
}

BlockId BlockPool::Take(BlockId block) {
  SetFree(block, false);
  holders_[block.value] = 1;
  return block;
}

BlockId BlockPool::Acquire(std::optional<BlockId> previous, std::uint32_t place) {
  SKEIN_CHECK(available_count() > 0);
  const std::uint32_t slot = place % kFrameBlocks;
  if (previous && slot != 0 && previous->value % kFrameBlocks == slot - 1) {
    const BlockId next{previous->value + 1};
    if (next.value < block_count_ && IsFree(next)) return Take(next);
  }
  // Where frames are held in part everywhere, evicting more finds no whole one and only empties the cache: free blocks
  // beyond those of each table's own tail frame are enough.
  const std::uint32_t enough = kFrameBlocks * table_count_ + 4 * kEvictionsForAFrame;
  for (std::uint32_t i = 0; i < kEvictionsForAFrame && whole_.empty() && cached_count_ > 0; ++i) {
    if (free_count_ >= enough) break;
    EvictOldest();
  }
  // At its own slot, also when earlier ones are somewhere else: the run's rest can then follow in this frame.
  if (!whole_.empty()) return Take({whole_.Lowest() * kFrameBlocks + slot});
  const std::uint32_t frame = partial_.Lowest();
  return Take({frame * kFrameBlocks + static_cast<std::uint32_t>(std::countr_zero(free_slots_[frame]))});
}

void BlockPool::Share(BlockId block) {
  SKEIN_CHECK(!IsFree(block));
  if (holders_[block.value]++ == 0) Unlink(block);
}

void BlockPool::Release(BlockId block) {
  SKEIN_CHECK(holders_[block.value] > 0);
  if (--holders_[block.value] > 0) return;
  if (index_ != nullptr && index_->Contains(block)) {
    Link(block);
  } else {
    SetFree(block, true);
  }
}

// Makes it the newest of the cached blocks.
void BlockPool::Link(BlockId block) {
  const std::uint32_t end = block_count_, newest = older_[end];
  older_[block.value] = newest;
  newer_[block.value] = end;
  newer_[newest] = block.value;
  older_[end] = block.value;
  ++cached_count_;
}

void BlockPool::Unlink(BlockId block) {
  newer_[older_[block.value]] = newer_[block.value];
  older_[newer_[block.value]] = older_[block.value];
  --cached_count_;
}

void BlockPool::EvictOldest() {
  SKEIN_CHECK(cached_count_ > 0);
  const BlockId oldest{newer_[block_count_]};
  Unlink(oldest);
  index_->Remove(oldest);
  SetFree(oldest, true);
}

BlockTable::BlockTable(BlockTable&& other) noexcept : pool_(other.pool_), blocks_(std::move(other.blocks_)) {
  other.blocks_.clear();
}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this != &other) {
    Clear();
    pool_ = other.pool_;
    blocks_.swap(other.blocks_);
  }
  return *this;
}

std::uint32_t BlockTable::SoleCount() const {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(blocks_, [this](BlockId block) { return pool_->holders(block) == 1; }));
}

bool BlockTable::TryGrow(std::uint32_t count) {
  if (count <= this->count()) return true;
  if (pool_->available_count() < count - this->count()) return false;
  if (blocks_.empty()) pool_->CountTable(true);
  while (this->count() < count) {
    const auto previous = blocks_.empty() ? std::nullopt : std::optional(blocks_.back());
    blocks_.push_back(pool_->Acquire(previous, this->count()));
  }
  return true;
}

void BlockTable::AppendShared(BlockId block) {
  if (blocks_.empty()) pool_->CountTable(true);
  pool_->Share(block);
  blocks_.push_back(block);
}

void BlockTable::Replace(std::uint32_t place, BlockId block) {
  pool_->Share(block);
  pool_->Release(std::exchange(blocks_[place], block));
}

void BlockTable::Clear() {
  if (!blocks_.empty()) pool_->CountTable(false);
  for (; !blocks_.empty(); blocks_.pop_back()) pool_->Release(blocks_.back());
}

void BlockTable::AppendRunsFrom(std::uint32_t begin, std::vector<BlockRun>& out) const {
  const std::size_t first = out.size();
  for (std::uint32_t i = begin; i < count(); ++i) {
    if (out.size() > first && out.back().first.value + out.back().count == blocks_[i].value) {
      ++out.back().count;
    } else {
      out.push_back({.first = blocks_[i], .count = 1});
    }
  }
}

}  // namespace skein::scheduler
