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
constexpr auto kTimeout = std::chrono::milliseconds(500);

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
  Arena arena = ArenaFor(RankKind::kProcesses, kMembers, 4096);
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
  Arena arena = ArenaFor(RankKind::kProcesses, kMembers, 4096);
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
                         testing::Values(Algorithm::kOneShot, Algorithm::kReduceScatter, Algorithm::kHierarchical, Algorithm::kRing),
                         [](const auto& named) { return std::string(NameOf(named.param)); });

TEST(Failure, WhoLeavesHoldsNobodyUp) {
  // A rank that cannot go on (no memory, a broken shard) says so; the others must not find out by waiting.
  Arena arena = ArenaFor(RankKind::kThreads, 3, 4096);
  const auto said = RunRanks(RankKind::kThreads, 3, [&](int member) -> std::string {
    auto transport = SharedMemoryTransport::Create(arena, member, {.timeout = std::chrono::hours(1)});
    if (member == 1) {
      (*transport)->Abandon();
      return (*transport)->status().message();
    }
    Communicator communicator(Group::OnOneHost(3, member), std::move(transport).value(), {});
    return communicator.Barrier().message();
  });
  EXPECT_NE(said[0].find("rank 1 "), std::string::npos) << said[0];
  EXPECT_NE(said[2].find("rank 1 "), std::string::npos) << said[2];
  EXPECT_NE(said[1].find("rank 1 has left"), std::string::npos) << said[1];
}

// What two members say that all-reduce rows of different lengths.
std::vector<std::string> Disagree(int columns, int other_columns) {
  Arena arena = ArenaFor(RankKind::kThreads, 2, 4096);
  return RunRanks(RankKind::kThreads, 2, [&](int member) {
    auto transport = SharedMemoryTransport::Create(arena, member, {.timeout = std::chrono::seconds(20)});
    Communicator communicator(Group::OnOneHost(2, member), std::move(transport).value(), {});
    std::vector<float> x(1000), out(1000);
    return communicator.AllReduce({.x = x.data(), .out = out.data(), .rows = 1, .columns = member == 0 ? columns : other_columns}).message();
  });
}

TEST(Failure, MembersThatDisagreeAboutSizesAreTold) {
  for (const auto& [a, b] : {std::pair(100, 99), std::pair(1000, 999), std::pair(100, 1000), std::pair(1000, 100)}) {
    // Whoever finds out first says so; the other may only learn that it was given up.
    const std::vector<std::string> said = Disagree(a, b);
    EXPECT_NE((said[0] + said[1]).find("expected"), std::string::npos) << a << " " << b << ": " << said[0] << "; " << said[1];
    for (const std::string& message : said) EXPECT_EQ(message.substr(0, 16), "all_reduce: rank") << a << " " << b;
  }
}

TEST(Failure, ABadMessageOfAPeerIsRefused) {
  // A foreign writer in shared memory must not make this rank read elsewhere.
  constexpr std::size_t kBytes = ShortBytes(2) + 64;
  Arena arena = ArenaFor(RankKind::kThreads, 2, 4096);
  auto transport = SharedMemoryTransport::Create(arena, 0, {});
  ASSERT_TRUE(transport.ok());
  arena.FlagOf(1, 0).message[0] = {0xfffff000U, kBytes};
  arena.FlagOf(1, 0).posted.store(kFirstCount + 1);
  EXPECT_EQ((*transport)->Await(1, kBytes), nullptr);
  EXPECT_FALSE((*transport)->status().ok());
}

}  // namespace
}  // namespace skein::comm
