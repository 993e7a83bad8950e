// SPDX-License-Identifier: Apache-2.0
#include "scheduler/block_pool.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace skein::scheduler {
namespace {

std::vector<std::uint32_t> BlocksOf(const BlockTable& table, std::uint32_t begin = 0) {
  std::vector<BlockRun> runs;
  table.AppendRunsFrom(begin, runs);
  std::vector<std::uint32_t> blocks;
  for (const BlockRun& run : runs) {
    for (std::uint32_t i = 0; i < run.count; ++i) blocks.push_back(run.first.value + i);
  }
  return blocks;
}

// Two sequences with one block would overwrite each other's keys.
TEST(BlockPoolTest, RandomTablesNeverShareABlockAndGiveAllBack) {
  for (const std::uint32_t size : {1u, 63u, 64u, 65u, 200u}) {
    BlockPool pool(size);
    std::minstd_rand random(size);
    {
      std::vector<BlockTable> tables;
      for (int i = 0; i < 8; ++i) tables.emplace_back(pool);
      for (int round = 0; round < 2000; ++round) {
        BlockTable& table = tables[random() % tables.size()];
        if (random() % 4 == 0) {
          table.Clear();
        } else {
          const std::uint32_t wanted = table.count() + static_cast<std::uint32_t>(random() % 9);
          const std::vector<std::uint32_t> before = BlocksOf(table);
          const bool fits = wanted - table.count() <= pool.free_count();
          ASSERT_EQ(table.TryGrow(wanted), fits);
          if (fits) {
            ASSERT_EQ(table.count(), wanted);
          }
          const std::vector<std::uint32_t> after = BlocksOf(table);
          ASSERT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
        }
        std::set<std::uint32_t> held;
        std::size_t count = 0;
        for (const BlockTable& each : tables) {
          const std::vector<std::uint32_t> blocks = BlocksOf(each);
          ASSERT_EQ(blocks.size(), each.count());
          count += blocks.size();
          held.insert(blocks.begin(), blocks.end());
        }
        ASSERT_EQ(held.size(), count);
        ASSERT_EQ(pool.held_count(), count);
        for (const std::uint32_t block : held) ASSERT_FALSE(pool.IsFree({block}));
      }
    }
    EXPECT_EQ(pool.free_count(), size);
  }
}

// Ranks would be told the wrong places of the blocks that were added.
TEST(BlockPoolTest, RunsFromTheMiddleAreTheRest) {
  BlockPool pool(20);
  BlockTable first(pool), second(pool), third(pool);
  ASSERT_TRUE(first.TryGrow(3));
  ASSERT_TRUE(second.TryGrow(2));
  ASSERT_TRUE(third.TryGrow(2));
  first.Clear();
  ASSERT_TRUE(second.TryGrow(8));  // 3 4 | 0 1 2 | 7 8 9
  const std::vector<std::uint32_t> all = BlocksOf(second);
  EXPECT_EQ(all, (std::vector<std::uint32_t>{3, 4, 0, 1, 2, 7, 8, 9}));
  for (std::uint32_t begin = 0; begin <= 8; ++begin) {
    EXPECT_EQ(BlocksOf(second, begin), std::vector<std::uint32_t>(all.begin() + begin, all.end()));
  }
}

// A moved table that still gave back its blocks would free those of another sequence.
TEST(BlockPoolTest, MovedTablesReleaseOnce) {
  BlockPool pool(10);
  BlockTable a(pool);
  ASSERT_TRUE(a.TryGrow(4));
  BlockTable b(std::move(a));
  EXPECT_EQ(b.count(), 4u);
  BlockTable c(pool);
  ASSERT_TRUE(c.TryGrow(3));
  c = std::move(b);
  EXPECT_EQ(pool.held_count(), 4u);
  c.Clear();
  EXPECT_EQ(pool.free_count(), 10u);
}

}  // namespace
}  // namespace skein::scheduler
