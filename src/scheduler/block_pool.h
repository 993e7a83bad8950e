// SPDX-License-Identifier: Apache-2.0
//
// BlockPool hands out KV cache blocks and takes them back. It counts; it never touches cache memory. BlockTable is what a
// sequence holds of it; preempting a sequence is destroying its table.
//
// A block is a quarter of a frame: four aligned blocks are one frame (block = frame * 4 + slot), and a run of four blocks of
// a sequence that lies in one frame at slots 0 … 3 is read in place. Where blocks lie is a matter of speed only. A
// table's next block is the next slot of its own frame while that is free; a new run begins a whole free frame while
// there is one, so that under light load no two tails share a frame; only then are frames shared.
//
// A block with an entry in the prefix index stays when its last holder lets go: it is cached, and goes back to the free
// ones when they run out, the longest unused first. Tables let go of their last block first, and whoever holds a block
// holds its parent, so children always go before parents.
//
// Owned and called by the engine thread only. A pool outlives its tables, the index outlives the pool. Sizes are fixed at
// start: when too few blocks are free or cached, TryGrow says so and the scheduler preempts.
//
// Invariants: (1) every block is free, held or cached, and free_count + held_count + cached_count == block_count;
// (2) a cached block has an entry in the index, a free one has none.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "scheduler/prefix_index.h"
#include "scheduler/step_plan.h"

namespace skein::scheduler {

class BlockPool {
 public:
  static constexpr std::uint32_t kFrameBlocks = 4;

  // `index` may be null: nothing is cached then.
  explicit BlockPool(std::uint32_t block_count, PrefixIndex* index = nullptr);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  std::uint32_t block_count() const { return block_count_; }
  std::uint32_t free_count() const { return free_count_; }
  std::uint32_t cached_count() const { return cached_count_; }
  std::uint32_t held_count() const { return block_count_ - free_count_ - cached_count_; }
  // What may be acquired.
  std::uint32_t available_count() const { return free_count_ + cached_count_; }
  bool IsFree(BlockId block) const;
  // Tables that hold it. 0: free or cached.
  std::uint32_t holders(BlockId block) const { return holders_[block.value]; }

  // Takes a block for the `place`-th block of a table whose last one is `previous`. Requires: available_count() > 0.
  BlockId Acquire(std::optional<BlockId> previous, std::uint32_t place);
  // One holder more. Requires: the block is held or cached.
  void Share(BlockId block);
  // One holder less. Requires: it is held.
  void Release(BlockId block);
  // A table takes its first block, or has let go of its last one.
  void CountTable(bool holds) { holds ? ++table_count_ : --table_count_; }

 private:
  // A set of frames that is asked for its lowest: low numbers are used again first, so a lightly loaded engine keeps
  // touching the same memory.
  class FrameSet {
   public:
    explicit FrameSet(std::uint32_t frames) : words_(std::size_t{frames} / 64 + 1) {}
    bool empty() const { return count_ == 0; }
    void Set(std::uint32_t frame, bool is_in);
    std::uint32_t Lowest();  // Requires: not empty

   private:
    std::vector<std::uint64_t> words_;
    std::size_t first_ = 0;  // no frame in words before it
    std::uint32_t count_ = 0;
  };

  void SetFree(BlockId block, bool is_free);
  void Link(BlockId block);
  void Unlink(BlockId block);
  void EvictOldest();
  BlockId Take(BlockId block);

  const std::uint32_t block_count_;
  PrefixIndex* const index_;
  std::uint32_t free_count_ = 0;
  std::uint32_t cached_count_ = 0;
  std::uint32_t table_count_ = 0;           // that hold blocks
  std::vector<std::uint8_t> free_slots_;    // [frames]: bit s set: slot s is free
  FrameSet whole_, partial_;                // frames that are free wholly, and partly
  std::vector<std::uint32_t> holders_;      // [blocks]
  std::vector<std::uint32_t> older_, newer_;  // [blocks + 1]: cached blocks as a ring through place block_count
};

// The blocks of one sequence, in order of positions. Gives them back when it goes.
class BlockTable {
 public:
  explicit BlockTable(BlockPool& pool) : pool_(&pool) {}
  ~BlockTable() { Clear(); }
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;

  std::uint32_t count() const { return static_cast<std::uint32_t>(blocks_.size()); }
  BlockId block(std::uint32_t place) const { return blocks_[place]; }
  // How many blocks would become available without it.
  std::uint32_t SoleCount() const;

  // Room for so many, so that growing allocates nothing.
  void Reserve(std::uint32_t count) { blocks_.reserve(count); }
  // Grows to `count` blocks; unchanged when the pool has too few. True also when it has that many already.
  bool TryGrow(std::uint32_t count);
  // Appends a block that is held or cached.
  void AppendShared(BlockId block);
  // Holds `block` instead of its own at `place`. Requires: both hold the same keys.
  void Replace(std::uint32_t place, BlockId block);
  void Clear();
  // Appends the blocks from the `begin`-th on, as runs of consecutive ones.
  void AppendRunsFrom(std::uint32_t begin, std::vector<BlockRun>& out) const;

 private:
  BlockPool* pool_;
  std::vector<BlockId> blocks_;
};

}  // namespace skein::scheduler
