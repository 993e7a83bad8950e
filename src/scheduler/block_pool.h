// SPDX-License-Identifier: Apache-2.0
//
// BlockPool hands out KV cache blocks in runs of consecutive places and takes them back. It counts; it never touches
// cache memory. BlockTable is what a sequence holds of it; preempting a sequence is destroying its table.
//
// Owned and called by the engine thread only. A pool outlives its tables. Its size is fixed at start: when too few
// blocks are free, TryGrow says so and the scheduler preempts.
//
// Invariants: (1) every block is free or held, never both; (2) free_count + held_count == block_count.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "scheduler/step_plan.h"

namespace skein::scheduler {

class BlockPool {
 public:
  explicit BlockPool(std::uint32_t block_count);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  std::uint32_t block_count() const { return block_count_; }
  std::uint32_t free_count() const { return free_count_; }
  std::uint32_t held_count() const { return block_count_ - free_count_; }
  bool IsFree(BlockId block) const;

  // Takes the `count` free blocks with the lowest numbers and appends them to `runs`, the first one merged with the last
  // run where it continues it. Takes nothing when fewer are free.
  bool TryAcquire(std::uint32_t count, std::vector<BlockRun>& runs);
  // Requires: all blocks of the run are held.
  void Release(BlockRun run);

 private:
  std::uint32_t block_count_;
  std::uint32_t free_count_;
  std::size_t first_word_ = 0;        // no free block in words before it
  std::vector<std::uint64_t> free_;   // bit set: free
};

// The blocks of one sequence, in order of positions. Gives them back when it goes.
class BlockTable {
 public:
  explicit BlockTable(BlockPool& pool) : pool_(&pool) {}
  ~BlockTable() { Clear(); }
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;

  std::uint32_t count() const { return count_; }
  // Grows to `count` blocks; unchanged when the pool has too few. True also when it has that many already.
  bool TryGrow(std::uint32_t count);
  void Clear();
  // Appends the blocks from the `begin`-th on.
  void AppendRunsFrom(std::uint32_t begin, std::vector<BlockRun>& out) const;

 private:
  BlockPool* pool_;
  std::uint32_t count_ = 0;
  std::vector<BlockRun> runs_;
};

}  // namespace skein::scheduler
