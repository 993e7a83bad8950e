// SPDX-License-Identifier: Apache-2.0
//
// If a byte went to the wrong place or a slot were reused too early, a pipeline stage would compute with another step's rows.
#include "comm/collectives/moving.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "comm/collectives/collectives_testing.h"
#include "comm/comm_testing.h"
#include "comm/transports/shared_memory.h"

namespace skein::comm {
namespace {

class Moving : public testing::TestWithParam<std::tuple<RankKind, int>> {};

TEST_P(Moving, AnyOrderOfOperationsDeliversAllBytes) {
  const auto [kind, members] = GetParam();
  Arena arena = ArenaFor(kind, members, 4096);
  const auto said = RunRanks(kind, members, [&](int member) { 
    auto transport = SharedMemoryTransport::Create(arena, member, {.timeout = std::chrono::seconds(60), .spin = member % 2 == 0});
    return transport.ok() ? CheckMoving(**transport, 150) : transport.status().message();
  });
  for (int member = 0; member < members; ++member) EXPECT_EQ(said[static_cast<std::size_t>(member)], "") << "member " << member;
}

INSTANTIATE_TEST_SUITE_P(Ranks, Moving,
                         testing::Combine(testing::Values(RankKind::kThreads, RankKind::kProcesses), testing::Values(1, 2, 3, 5, 8)),
                         [](const auto& named) {
                           return fmt::format("{}_{}", NameOf(std::get<0>(named.param)), std::get<1>(named.param));
                         });

TEST(Barrier, HoldsEverybodyUntilTheLast) {
  constexpr int kMembers = 5;
  Arena arena = ArenaFor(RankKind::kThreads, kMembers, 512);
  std::atomic<int> arrived{0};
  const auto said = RunRanks(RankKind::kThreads, kMembers, [&](int member) -> std::string {
    auto transport = SharedMemoryTransport::Create(arena, member, {.timeout = std::chrono::seconds(60)});
    for (int round = 1; round <= 30; ++round) {
      if (member == round % kMembers) std::this_thread::sleep_for(std::chrono::microseconds(300));
      ++arrived;
      if (!Barrier(**transport).ok()) return "error";
      if (arrived.load() < round * kMembers) return fmt::format("left barrier {} early", round);
      if (!Barrier(**transport).ok()) return "error";
    }
    return "";
  });
  for (const std::string& problem : said) EXPECT_EQ(problem, "");
}

}  // namespace
}  // namespace skein::comm
