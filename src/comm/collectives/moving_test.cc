// SPDX-License-Identifier: Apache-2.0
//
// If a byte went to the wrong place or a slot were reused too early, a pipeline stage would compute with another step's rows.
#include "comm/collectives/moving.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "comm/comm_testing.h"
#include "comm/transports/shared_memory.h"

namespace skein::comm {
namespace {

std::byte ByteOf(int member, int round, std::size_t at) {
  return static_cast<std::byte>(static_cast<std::size_t>(member * 31 + round * 7) + at * 13 + at / 251);
}

void Fill(std::span<std::byte> bytes, int member, int round) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = ByteOf(member, round, i);
}

bool Holds(std::span<const std::byte> bytes, int member, int round) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != ByteOf(member, round, i)) return false;
  }
  return true;
}

Status GatherRound(Transport& transport, int round, std::string& problem) {
  std::vector<std::size_t> sizes;
  std::size_t total = 0;
  for (int member = 0; member < transport.size(); ++member) {
    sizes.push_back(static_cast<std::size_t>((member * 257 + round * 97) % 7000));
    total += sizes.back();
  }
  std::vector<std::byte> mine(sizes[static_cast<std::size_t>(transport.self())]), all(total);
  Fill(mine, transport.self(), round);
  SKEIN_RETURN_IF_ERROR(AllGather(transport, mine, sizes, all));
  std::span<const std::byte> rest = all;
  for (int member = 0; member < transport.size(); ++member) {
    const std::size_t size = sizes[static_cast<std::size_t>(member)];
    if (!Holds(rest.first(size), member, round)) problem = fmt::format("all_gather of member {}, round {}", member, round);
    rest = rest.subspan(size);
  }
  return OkStatus();
}

// A pipeline: what member 0 makes goes through all, several messages in flight.
Status PipeRound(Transport& transport, int round, std::string& problem) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(1 + round * 211 % 9000));
  for (int message = 0; message < 6; ++message) {
    if (transport.self() == 0) {
      Fill(bytes, message, round);
    } else {
      SKEIN_RETURN_IF_ERROR(Receive(transport, transport.self() - 1, bytes));
      if (!Holds(bytes, message, round)) problem = fmt::format("message {} of round {}", message, round);
    }
    if (transport.self() + 1 < transport.size()) SKEIN_RETURN_IF_ERROR(Send(transport, transport.self() + 1, bytes));
  }
  return OkStatus();
}

Status BroadcastRound(Transport& transport, int round, std::string& problem) {
  const int root = round % transport.size();
  std::vector<std::byte> bytes(static_cast<std::size_t>(round * 173 % 9000));
  if (transport.self() == root) Fill(bytes, root, round);
  SKEIN_RETURN_IF_ERROR(Broadcast(transport, root, bytes));
  if (!Holds(bytes, root, round)) problem = fmt::format("broadcast of round {}", round);
  return OkStatus();
}

std::string Mix(Arena& arena, int member) {
  TransportOptions options;
  options.timeout = std::chrono::seconds(60);
  options.spin = member % 2 == 0;
  auto transport = SharedMemoryTransport::Create(arena, member, options);
  if (!transport.ok()) return transport.status().message();
  Transport& it = **transport;
  std::mt19937 order(7);  // everybody's is the same
  std::mt19937 own(static_cast<unsigned>(member));
  std::string problem;
  for (int round = 0; round < 150 && problem.empty(); ++round) {
    if (own() % 12 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 200));
    Status status;
    switch (order() % 4) {
      case 0: status = GatherRound(it, round, problem); break;
      case 1: status = PipeRound(it, round, problem); break;
      case 2: status = BroadcastRound(it, round, problem); break;
      default: status = Barrier(it); break;
    }
    if (!status.ok()) return status.message();
  }
  return problem;
}

class Moving : public testing::TestWithParam<std::tuple<RankKind, int>> {};

TEST_P(Moving, AnyOrderOfOperationsDeliversAllBytes) {
  const auto [kind, members] = GetParam();
  Arena arena = ArenaFor(kind, members, 4096);
  const auto said = RunRanks(kind, members, [&](int member) { return Mix(arena, member); });
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
