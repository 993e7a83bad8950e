// SPDX-License-Identifier: Apache-2.0
//
// If this fails, a step asks the system for memory: it may then fail in the middle of an answer, and waits for locks
// that all threads share.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "model/decoder.h"
#include "model/tiny_model_testing.h"

namespace {
std::atomic<long> g_allocations{0};  // tests only: operator new can carry nothing
}

__attribute__((noinline)) void* operator new(std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace skein::model {
namespace {

TEST(AllocationTest, StepsAllocateNothing) {
  const TinyModel file({.matrices = DType::kQ4_1});
  kernels::ThreadPool pool(2);
  auto model = Model::Load(file, {}, pool);
  ASSERT_TRUE(model.ok());
  auto kv = KvStore::Create(file.config(), DefaultKvType((*model)->arithmetic()), 16);
  ASSERT_TRUE(kv.ok());
  auto decoder = Decoder::Create(**model, **kv, pool, {.tokens = 128, .outputs = 8});
  ASSERT_TRUE(decoder.ok());
  const std::vector<TokenId> tokens(128, 3);
  const std::vector<BlockId> all = ScatteredBlocks(40, 64);
  const std::span<const BlockId> blocks = std::span(all).first(32), others = std::span(all).subspan(32);
  const std::vector<std::int32_t> outputs = {3, 100};
  const long before = g_allocations.load();
  for (int step = 0; step < 3; ++step) {
    const BatchRow rows[] = {{0, 100, step * 100, blocks}, {100, 28, step * 28, others}};
    (void)(*decoder)->Forward({tokens, rows, outputs});
  }
  for (int step = 0; step < 3; ++step) {
    const BatchRow row{0, 1, 300 + step, blocks};
    (void)(*decoder)->Forward({std::span(tokens).first(1), {&row, 1}, std::span(outputs).first(0)});
  }
  EXPECT_EQ(g_allocations.load(), before);
}

}  // namespace
}  // namespace skein::model
