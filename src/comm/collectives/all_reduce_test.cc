// SPDX-License-Identifier: Apache-2.0
//
// If a sum depended on the route it took, or members got different ones, a token would depend on the batch and ranks would drift apart.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "comm/collectives/collectives_testing.h"
#include "comm/comm_testing.h"
#include "comm/transports/shared_memory.h"

namespace skein::comm {
namespace {

constexpr std::size_t kSlotBytes = 4096;  // so that larger messages go in several chunks

struct Case {
  HostMap hosts;
  WireTypes wire;
  Arena arena;
};

std::string RunMember(std::vector<Case>& cases, int member) {
  unsigned seed = static_cast<unsigned>(member) + 5U;
  for (Case& one : cases) {
    Group group = Group::OnOneHost(one.arena.members(), member);
    group.hosts = one.hosts;
    seed = seed * 1664525U + 1013904223U;  // as Numerical Recipes does it
    auto transport = SharedMemoryTransport::Create(one.arena, member, {.timeout = std::chrono::seconds(60), .spin = seed >> 31 == 0});
    if (!transport.ok()) return transport.status().message();
    const auto path = member % 2 == 0 ? kernels::AvailablePaths().front() : kernels::KernelPath::kRef;
    Communicator communicator(group, std::move(transport).value(), {.wire = one.wire, .kernels = path});
    const std::string problem = CheckSums(communicator, seed);
    if (!problem.empty()) return problem;
  }
  return "";
}

class AllReduce : public testing::TestWithParam<std::tuple<RankKind, int>> {};

TEST_P(AllReduce, GivesTheOneSumOnEveryRoute) {
  const auto [kind, members] = GetParam();
  std::vector<Case> cases;
  for (const WireTypes& wire : kTestedWires) {
    for (const int hosts : std::set{1, 2, 3, members}) {
      if (hosts > members || (hosts == 3 && members > 4)) continue;  // more members take longer and show no more
      std::vector<int> host_of = SpreadOverHosts(members, hosts);
      if (hosts == 2 && members > 3) std::swap(host_of.front(), host_of.back());  // hosts need not be runs of ranks
      cases.push_back({HostMap::Of(host_of), wire, ArenaFor(kind, members, kSlotBytes)});
    }
  }
  const auto said = RunRanks(kind, members, [&](int member) { return RunMember(cases, member); });
  for (int member = 0; member < members; ++member) EXPECT_EQ(said[static_cast<std::size_t>(member)], "") << "member " << member;
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllReduce,
                         testing::Combine(testing::Values(RankKind::kThreads, RankKind::kProcesses), testing::Range(1, 9)),
                         [](const auto& named) {
                           return fmt::format("{}_{}", NameOf(std::get<0>(named.param)), std::get<1>(named.param));
                         });

}  // namespace
}  // namespace skein::comm
