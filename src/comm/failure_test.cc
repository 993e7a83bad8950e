// SPDX-License-Identifier: Apache-2.0
//
// If a lost rank left the others waiting, a service would hang instead of restarting a replica.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>

#include "comm/comm_testing.h"
#include "comm/communicator.h"
#include "comm/transports/shared_memory.h"

namespace skein::comm {
namespace {

constexpr int kMembers = 4;
constexpr int kLost = 2;
constexpr auto kTimeout = std::chrono::milliseconds(300);

// All-reduces until something fails; `at_round` is called by the lost member at round 20.
std::string ReduceUntilError(Arena& arena, int member, Algorithm algorithm, const std::function<void()>& at_round) {
  auto transport = SharedMemoryTransport::Create(arena, member, {.timeout = kTimeout, .ranks = {10, 11, 12, 13}});
  if (!transport.ok()) return transport.status().message();
  Communicator communicator(Group::OnOneHost(kMembers, member), std::move(transport).value(), {.algorithm = algorithm});
  std::vector<float> x(600, 1.0f), out(600);
  for (int round = 0; round < 1000; ++round) {
    if (member == kLost && round == 20) at_round();
    const auto begin = std::chrono::steady_clock::now();
    const Status status = communicator.AllReduce({.x = x.data(), .out = out.data(), .rows = 1, .columns = 600});
    const auto took = std::chrono::steady_clock::now() - begin;
    if (status.ok()) continue;
    if (round < 20) return fmt::format("failed too early, in round {}: {}", round, status.message());
    // Slack for a machine under load; hanging is what this is about.
    if (took > kTimeout + std::chrono::seconds(5)) return "took too long";
    const Status again = communicator.Barrier();
    if (again.ok() || again.message() != status.message()) return "went on after an error";
    return "error: " + status.message();
  }
  return "never noticed";
}

class Failure : public testing::TestWithParam<Algorithm> {};

TEST_P(Failure, AKilledRankIsNamedByAllOthers) {
  Arena arena = ArenaFor(RankKind::kProcesses, kMembers, 1024);
  const auto said = RunRanks(RankKind::kProcesses, kMembers, [&](int member) {
    return ReduceUntilError(arena, member, GetParam(), [] { raise(SIGKILL); });
  });
  for (int member = 0; member < kMembers; ++member) {
    const std::string& message = said[static_cast<std::size_t>(member)];
    if (member == kLost) {
      EXPECT_EQ(message, "ended by signal 9");
    } else {
      EXPECT_EQ(message.substr(0, 25), "error: all_reduce: rank 1") << message;
      // Where all wait for all, it is the lost one that is named.
      EXPECT_TRUE(GetParam() != Algorithm::kOneShot || message.find("rank 12 ") != std::string::npos) << message;
    }
  }
}

TEST_P(Failure, AFrozenRankIsNamedAndFencedWhenItWakes) {
  Arena arena = ArenaFor(RankKind::kProcesses, kMembers, 1024);
  std::atomic<std::uint32_t>& frozen = arena.FlagOf(kLost, kLost).posted;  // a flag that nobody else uses
  const auto said = RunRanks(RankKind::kProcesses, kMembers, [&](int member) -> std::string {
    const std::string message = ReduceUntilError(arena, member, GetParam(), [&] {
      frozen.store(static_cast<std::uint32_t>(getpid()));
      raise(SIGSTOP);
    });
    // Member 0 has given it up and wakes it.
    if (member == 0 && frozen.load() != kFirstCount) kill(static_cast<pid_t>(frozen.load()), SIGCONT);
    return message;
  });
  for (int member = 0; member < kMembers; ++member) {
    EXPECT_EQ(said[static_cast<std::size_t>(member)].substr(0, 25), "error: all_reduce: rank 1") << member << ": " << said[static_cast<std::size_t>(member)];
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Failure,
                         testing::Values(Algorithm::kOneShot, Algorithm::kReduceScatter, Algorithm::kHierarchical, Algorithm::kRing,
                                         Algorithm::kHalvingDoubling, Algorithm::kDoubleTree),
                         [](const auto& named) { return std::string(NameOf(named.param)); });

TEST(Failure, MembersThatDisagreeAboutSizesAreTold) {
  Arena arena = ArenaFor(RankKind::kThreads, 2, 4096);
  const auto said = RunRanks(RankKind::kThreads, 2, [&](int member) {
    auto transport = SharedMemoryTransport::Create(arena, member, {.timeout = std::chrono::seconds(20)});
    Communicator communicator(Group::OnOneHost(2, member), std::move(transport).value(), {});
    std::vector<float> x(600), out(600);
    return communicator.AllReduce({.x = x.data(), .out = out.data(), .rows = 1, .columns = member == 0 ? 600 : 599}).message();
  });
  for (const std::string& message : said) EXPECT_NE(message.find("were expected"), std::string::npos) << message;
}

TEST(Failure, ABadMessageOfAPeerIsRefused) {
  // A foreign writer in shared memory must not make this rank read elsewhere.
  Arena arena = ArenaFor(RankKind::kThreads, 2, 1024);
  auto transport = SharedMemoryTransport::Create(arena, 0, {});
  ASSERT_TRUE(transport.ok());
  arena.FlagOf(1, 0).message[0] = {0xfffffff0U, 64};
  arena.FlagOf(1, 0).posted.store(kFirstCount + 1);
  EXPECT_EQ((*transport)->Await(1, 64), nullptr);
  EXPECT_FALSE((*transport)->status().ok());
}

}  // namespace
}  // namespace skein::comm
