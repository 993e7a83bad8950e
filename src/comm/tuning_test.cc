// SPDX-License-Identifier: Apache-2.0
//
// If members chose different algorithms for one message, they would wait for each other until the deadline.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/comm_testing.h"
#include "comm/communicator.h"
#include "comm/transports/shared_memory.h"

namespace skein::comm {
namespace {

TEST(Tuning, AllMembersGetTheSameExactTable) {
  constexpr int kMembers = 3;
  Arena arena = ArenaFor(RankKind::kThreads, kMembers, 64 << 10);
  std::vector<AlgorithmTable> tables(kMembers);
  const auto said = RunRanks(RankKind::kThreads, kMembers, [&](int member) -> std::string {
    auto transport = SharedMemoryTransport::Create(arena, member, {.timeout = std::chrono::seconds(60), .spin = false});
    Group group = Group::OnOneHost(kMembers, member);
    group.hosts = HostMap::Of(std::vector<int>{0, 0, 1});
    Communicator communicator(group, std::move(transport).value(), {});
    const Status status = communicator.Tune(std::chrono::milliseconds(20));
    tables[static_cast<std::size_t>(member)] = communicator.table();
    std::vector<float> x(5000, 1.0f), out(5000);
    for (const int columns : {10, 1000, 5000}) {
      if (!communicator.AllReduce({.x = x.data(), .out = out.data(), .rows = 1, .columns = columns}).ok() || out[0] != 3.0f) return "wrong sum";
    }
    return status.message();
  });
  for (int member = 0; member < kMembers; ++member) {
    EXPECT_EQ(said[static_cast<std::size_t>(member)], "");
    for (std::size_t i = 0; i < tables[0].rows.size(); ++i) {
      const AlgorithmTable::Row& row = tables[static_cast<std::size_t>(member)].rows[i];
      EXPECT_EQ(row.algorithm, tables[0].rows[i].algorithm);
      EXPECT_GT(row.microseconds, 0.0);
      for (const AlgorithmInfo& info : Algorithms()) {
        EXPECT_TRUE(info.exact || info.algorithm != row.algorithm) << info.name;
      }
    }
  }
}

}  // namespace
}  // namespace skein::comm
