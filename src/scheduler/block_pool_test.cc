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
  ASSERT_TRUE(second.TryGrow(10));  // 4 5 6 7 | 0 1 2 3 | 12 13
  const std::vector<std::uint32_t> all = BlocksOf(second);
  EXPECT_EQ(all, (std::vector<std::uint32_t>{4, 5, 6, 7, 0, 1, 2, 3, 12, 13}));
  for (std::uint32_t begin = 0; begin <= 10; ++begin) {
    EXPECT_EQ(BlocksOf(second, begin), std::vector<std::uint32_t>(all.begin() + begin, all.end()));
  }
}

// Attention would gather every run of 64 keys from four places although nearly all memory is free.
TEST(BlockPoolTest, UnderLightLoadEveryRunIsOneFrameHoweverTailsGrow) {
  BlockPool pool(400);
  std::vector<BlockTable> tables;
  for (int i = 0; i < 16; ++i) tables.emplace_back(pool);
  std::minstd_rand random(7);
  for (int round = 0; round < 300; ++round) {
    BlockTable& table = tables[random() % tables.size()];
    if (table.count() == 16) table.Clear();
    ASSERT_TRUE(table.TryGrow(table.count() + 1));
    for (const BlockTable& each : tables) {
      for (std::uint32_t i = 0; i < each.count(); ++i) {
        ASSERT_EQ(each.block(i).value % 4, i % 4);
        ASSERT_EQ(each.block(i).value / 4, each.block(i - i % 4).value / 4);
      }
    }
  }
}

// Memory would be refused while quarters of other tails' frames lie unused.
TEST(BlockPoolTest, TheLastQuarterIsGivenOut) {
  BlockPool pool(8);
  BlockTable a(pool), b(pool), c(pool);
  ASSERT_TRUE(a.TryGrow(1));
  ASSERT_TRUE(b.TryGrow(1));
  ASSERT_TRUE(c.TryGrow(6));  // no whole frame is free: three of each
  EXPECT_EQ(pool.free_count(), 0u);
  EXPECT_FALSE(b.TryGrow(2));
  a.Clear();
  EXPECT_TRUE(b.TryGrow(2));
}

// A shared prefix would be overwritten while somebody still reads it, or never come back.
TEST(BlockPoolTest, SharedBlocksComeBackWithTheirLastHolder) {
  BlockPool pool(8);
  BlockTable a(pool), b(pool);
  ASSERT_TRUE(a.TryGrow(3));
  b.AppendShared(a.block(0));
  b.AppendShared(a.block(1));
  EXPECT_EQ(pool.holders(a.block(0)), 2u);
  EXPECT_EQ(pool.held_count(), 3u);
  EXPECT_EQ(a.SoleCount(), 1u);
  ASSERT_TRUE(b.TryGrow(3));
  EXPECT_NE(b.block(2), a.block(2));
  const BlockId own = b.block(2);
  b.Replace(2, a.block(2));
  EXPECT_TRUE(pool.IsFree(own));
  a.Clear();
  EXPECT_EQ(pool.held_count(), 3u);
  b.Clear();
  EXPECT_EQ(pool.free_count(), 8u);
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
