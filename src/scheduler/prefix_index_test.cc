// SPDX-License-Identifier: Apache-2.0
#include "scheduler/prefix_index.h"

#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "scheduler/block_pool.h"

namespace skein::scheduler {
namespace {

std::vector<TokenId> Tokens(TokenId first, std::size_t count = 4) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(first + static_cast<TokenId>(i));
  return tokens;
}

PrefixPlace First(const PrefixIndex& index, PrefixRoot root, const std::vector<TokenId>& tokens) {
  return {.root = root, .parent = std::nullopt, .hash = index.HashOf(root.low, tokens)};
}

// One tenant would learn from the time of an answer what another one asked.
TEST(PrefixIndexTest, RootsKeepTenantsSaltsAdaptersAndModelsApart) {
  const PrefixIndex index(4, 4, {1, 2}, "a");
  const PrefixRoot root = index.RootOf("x", "y", 0);
  EXPECT_EQ(index.RootOf("x", "y", 0), root);
  EXPECT_NE(index.RootOf("xy", "", 0), root);
  EXPECT_NE(index.RootOf("", "xy", 0), root);
  EXPECT_NE(index.RootOf("x", "z", 0), root);
  EXPECT_NE(index.RootOf("x", "y", 1), root);
  EXPECT_NE(PrefixIndex(4, 4, {1, 2}, "b").RootOf("x", "y", 0), root);
  EXPECT_NE(PrefixIndex(4, 4, {1, 3}, "a").RootOf("x", "y", 0), root);
}

// A collision of hashes would give a prompt the keys of another one.
TEST(PrefixIndexTest, AHitNeedsEqualTokensParentAndRootAndNotOnlyTheHash) {
  PrefixIndex index(4, 4, {1, 2}, "");
  const PrefixRoot root = index.RootOf("", "", 0), other = index.RootOf("other", "", 0);
  const PrefixPlace place = First(index, root, Tokens(1));
  index.Insert({2}, place, Tokens(1));
  EXPECT_EQ(index.Find(place, Tokens(1)), BlockId{2});
  EXPECT_EQ(index.Find(place, Tokens(2)), std::nullopt);
  EXPECT_EQ(index.Find({root, BlockId{2}, place.hash}, Tokens(1)), std::nullopt);
  EXPECT_EQ(index.Find({other, std::nullopt, place.hash}, Tokens(1)), std::nullopt);
  index.Remove({2});
  EXPECT_EQ(index.Find(place, Tokens(1)), std::nullopt);
  EXPECT_EQ(index.entry_count(), 0u);
}

// After days of prompts coming and going, an entry would be lost or found twice.
TEST(PrefixIndexTest, AgreesWithAPlainMapOverRandomLives) {
  constexpr std::uint32_t kBlocks = 40;
  PrefixIndex index(kBlocks, 4, {5, 6}, "");
  const PrefixRoot root = index.RootOf("", "", 0);
  std::map<TokenId, std::uint32_t> plain;
  std::minstd_rand random(1);
  for (int round = 0; round < 20000; ++round) {
    const auto token = static_cast<TokenId>(random() % 60);
    const auto block = static_cast<std::uint32_t>(random() % kBlocks);
    const PrefixPlace place = First(index, root, Tokens(token));
    const auto found = index.Find(place, Tokens(token));
    ASSERT_EQ(found.has_value(), plain.contains(token));
    if (found) {
      ASSERT_EQ(found->value, plain[token]);
      if (random() % 2 == 0) {
        index.Remove(*found);
        plain.erase(token);
      }
    } else if (!index.Contains({block})) {
      index.Insert({block}, place, Tokens(token));
      plain[token] = block;
    }
    ASSERT_EQ(index.entry_count(), plain.size());
  }
}

// The beginnings that all prompts share would be thrown away before the ends that nobody asks for again.
TEST(PrefixIndexTest, TheLongestUnusedGoFirstAndLeavesBeforeStems) {
  PrefixIndex index(8, 4, {1, 2}, "");
  BlockPool pool(8, &index);
  const PrefixRoot root = index.RootOf("", "", 0);
  const auto fill = [&](BlockTable& table, TokenId first, std::uint32_t count) {  // computes and enters `count` blocks
    PrefixPlace place{root, std::nullopt, root.low};
    ASSERT_TRUE(table.TryGrow(count));
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto tokens = Tokens(first + static_cast<TokenId>(i));
      place.hash = index.HashOf(place.hash, tokens);
      index.Insert(table.block(i), place, tokens);
      place.parent = table.block(i);
    }
  };
  std::vector<BlockId> old_blocks, new_blocks;
  {
    BlockTable old_table(pool), new_table(pool);
    fill(old_table, 10, 3);
    fill(new_table, 20, 3);
    for (std::uint32_t i = 0; i < 3; ++i) old_blocks.push_back(old_table.block(i));
    for (std::uint32_t i = 0; i < 3; ++i) new_blocks.push_back(new_table.block(i));
    EXPECT_EQ(pool.held_count(), 6u);
    old_table.Clear();
  }
  EXPECT_EQ(pool.held_count(), 0u);
  EXPECT_EQ(pool.cached_count(), 6u);
  EXPECT_EQ(pool.free_count(), 2u);
  BlockTable user(pool);
  user.AppendShared(new_blocks[0]);  // used again: now the newest
  EXPECT_EQ(pool.held_count(), 1u);
  user.Clear();
  BlockTable grower(pool);
  while (pool.cached_count() > 0) {
    ASSERT_TRUE(grower.TryGrow(grower.count() + 1));
    const auto there = [&](BlockId block) { return index.Contains(block); };
    if (std::ranges::any_of(old_blocks, there)) {
      EXPECT_TRUE(std::ranges::all_of(new_blocks, there));
    }
    // Whatever is left, no block is there without those before it.
    for (const auto& blocks : {old_blocks, new_blocks}) {
      for (std::size_t i = 1; i < 3; ++i) EXPECT_LE(index.Contains(blocks[i]), index.Contains(blocks[i - 1]));
    }
  }
  EXPECT_TRUE(grower.TryGrow(8));
  EXPECT_FALSE(grower.TryGrow(9));
  EXPECT_EQ(index.entry_count(), 0u);
}

// After some hours all memory is cached or held, and from then on every new run would be four scattered quarters.
TEST(PrefixIndexTest, NewRunsAreWholeFramesAlsoWhenEverythingIsCached) {
  constexpr std::uint32_t kBlocks = 800;
  PrefixIndex index(kBlocks, 4, {1, 2}, "");
  BlockPool pool(kBlocks, &index);
  const PrefixRoot root = index.RootOf("", "", 0);
  std::minstd_rand random(3);
  TokenId next = 0;
  std::uint64_t runs = 0, in_place = 0;
  std::vector<BlockTable> tables;
  std::vector<PrefixPlace> places;
  for (int i = 0; i < 12; ++i) tables.emplace_back(pool);
  places.resize(tables.size());
  for (int round = 0; round < 20000; ++round) {
    const std::size_t i = random() % tables.size();
    BlockTable& table = tables[i];
    if (table.count() == 0) places[i] = {root, std::nullopt, root.low};
    ASSERT_TRUE(table.TryGrow(table.count() + 1));
    const auto tokens = Tokens(next += 4);
    places[i].hash = index.HashOf(places[i].hash, tokens);
    index.Insert(table.block(table.count() - 1), places[i], tokens);
    places[i].parent = table.block(table.count() - 1);
    if (round > 2000 && table.count() % 4 == 0) {
      ++runs;
      const std::uint32_t first = table.block(table.count() - 4).value;
      in_place += first % 4 == 0 && places[i].parent->value == first + 3 ? 1 : 0;
    }
    if (random() % 40 == 0 || table.count() == 48) table.Clear();
  }
  EXPECT_GT(pool.cached_count(), kBlocks / 4);
  EXPECT_GE(in_place * 100, runs * 95);
}

}  // namespace
}  // namespace skein::scheduler
