// SPDX-License-Identifier: Apache-2.0
//
// A bitmap of free blocks, searched from its lowest free word: low numbers are used again first, so a lightly loaded
// engine keeps touching the same memory.
#include "scheduler/block_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace skein::scheduler {

BlockPool::BlockPool(std::uint32_t block_count)
    : block_count_(block_count), free_count_(block_count), free_((std::size_t{block_count} + 63) / 64, ~std::uint64_t{0}) {
  if (block_count % 64 != 0) free_.back() = (std::uint64_t{1} << (block_count % 64)) - 1;
}

bool BlockPool::IsFree(BlockId block) const {
  SKEIN_CHECK(block.value < block_count_);
  return ((free_[block.value / 64] >> (block.value % 64)) & 1) != 0;
}

bool BlockPool::TryAcquire(std::uint32_t count, std::vector<BlockRun>& runs) {
  if (count > free_count_) return false;
  free_count_ -= count;
  while (count > 0) {
    std::uint64_t& word = free_[first_word_];
    if (word == 0) {
      ++first_word_;
      continue;
    }
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(word));
    word &= word - 1;
    const auto block = static_cast<std::uint32_t>(first_word_ * 64) + bit;
    if (!runs.empty() && runs.back().first.value + runs.back().count == block) {
      ++runs.back().count;
    } else {
      runs.push_back({.first = {block}, .count = 1});
    }
    --count;
  }
  return true;
}

void BlockPool::Release(BlockRun run) {
  for (std::uint32_t i = 0; i < run.count; ++i) {
    const BlockId block{run.first.value + i};
    SKEIN_CHECK(!IsFree(block));
    free_[block.value / 64] |= std::uint64_t{1} << (block.value % 64);
  }
  free_count_ += run.count;
  if (run.count > 0) first_word_ = std::min(first_word_, std::size_t{run.first.value} / 64);
}

BlockTable::BlockTable(BlockTable&& other) noexcept
    : pool_(other.pool_), count_(std::exchange(other.count_, 0)), runs_(std::move(other.runs_)) {
  other.runs_.clear();
}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this != &other) {
    Clear();
    pool_ = other.pool_;
    count_ = std::exchange(other.count_, 0);
    runs_.swap(other.runs_);
  }
  return *this;
}

bool BlockTable::TryGrow(std::uint32_t count) {
  if (count <= count_) return true;
  if (!pool_->TryAcquire(count - count_, runs_)) return false;
  count_ = count;
  return true;
}

void BlockTable::Clear() {
  for (const BlockRun& run : runs_) pool_->Release(run);
  runs_.clear();
  count_ = 0;
}

void BlockTable::AppendRunsFrom(std::uint32_t begin, std::vector<BlockRun>& out) const {
  std::uint32_t passed = 0;
  for (const BlockRun& run : runs_) {
    const std::uint32_t skip = begin > passed ? std::min(begin - passed, run.count) : 0;
    if (skip < run.count) out.push_back({.first = {run.first.value + skip}, .count = run.count - skip});
    passed += run.count;
  }
}

}  // namespace skein::scheduler
