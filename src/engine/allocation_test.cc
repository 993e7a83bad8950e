// SPDX-License-Identifier: Apache-2.0
//
// If this fails, the engine's loop asks the system for memory in every step: the time of a step would depend on the heap
// of a process that has been running for weeks, and on locks that all threads share.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <new>

#include "engine/engine.h"
#include "engine/simulated_executor.h"

namespace {
std::atomic<long> g_allocations{0};  // tests only: operator new can carry nothing
}

__attribute__((noinline)) void* operator new(std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  std::abort();
}
// Libraries also ask without exceptions (std::stable_sort's buffer), and give back the same way.
__attribute__((noinline)) void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace skein::engine {
namespace {

class CountingSink final : public TokenSink {
 public:
  bool HasRoom() const override { return true; }
  void OnPrompt(PromptEvent /*event*/) override {}
  void OnToken(TokenEvent /*event*/) override { ++tokens; }
  void OnFinished(FinishedEvent /*event*/) override {}
  int tokens = 0;
};

TEST(AllocationTest, StepsOfRunningAnswersAllocateNothing) {
  for (const std::int32_t plans : {1, 2, 4}) {
    const ExecutorLimits limits{.vocabulary = 500,
                                .context = 4096,
                                .blocks = 1024,
                                .block_tokens = 16,
                                .step_tokens = 256,
                                .step_outputs = 32,
                                .plans_in_flight = plans};
    ManualClock clock;
    auto engine = Engine::Create(
        std::make_unique<SimulatedExecutor>(limits, scheduler::StepCost{}, &clock, /*stages=*/plans),
        {.policy = "fair", .own_thread = false}, clock);
    ASSERT_TRUE(engine.ok());
    auto sink = std::make_shared<CountingSink>();
    for (std::uint64_t id = 1; id <= 12; ++id) {
      RequestSpec request{.request = {id}, .tokens = {}, .prompt_tokens = 40, .max_tokens = 2000};
      for (TokenId i = 0; i < 40; ++i) request.tokens.push_back(i < 20 ? i : i + static_cast<TokenId>(id));
      ASSERT_TRUE((*engine)->Submit(std::move(request), sink).ok());
    }
    for (int step = 0; step < 200 * plans; ++step) (*engine)->Step();
    const int tokens = sink->tokens;
    const long before = g_allocations.load();
    for (int step = 0; step < 300 * plans; ++step) (*engine)->Step();
    EXPECT_EQ(g_allocations.load() - before, 0) << plans << " plans in flight";
    EXPECT_EQ(sink->tokens - tokens, 12 * 300);
  }
}

}  // namespace
}  // namespace skein::engine
