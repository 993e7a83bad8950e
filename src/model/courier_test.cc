// SPDX-License-Identifier: Apache-2.0
#include "model/courier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/comm_testing.h"
#include "comm/transports/arena.h"
#include "comm/transports/shared_memory.h"

namespace skein::model {
namespace {

constexpr int kColumns = 600;

std::unique_ptr<comm::Communicator> Join(comm::Arena& arena, int member, std::chrono::milliseconds timeout) {
  auto transport = comm::SharedMemoryTransport::Create(arena, member, {.timeout = timeout, .spin = false});
  return std::make_unique<comm::Communicator>(comm::Group::OnOneHost(2, member), std::move(transport).value(), comm::CommunicatorOptions{});
}

// Would break: a part of a step is computed with another part's sum, or with half of one.
TEST(CourierTest, SumsAreFormedInOrderAndOnlyOnce) {
  comm::Arena arena = comm::Arena::InProcess(2).value();
  const std::vector<std::string> said = comm::RunRanks(comm::RankKind::kThreads, 2, [&](int member) -> std::string {
    const auto ranks = Join(arena, member, std::chrono::seconds(20));
    Courier courier(*ranks);
    std::vector<float> x(2 * kColumns), out(2 * kColumns, 1.0f);
    for (int round = 0; round < 200; ++round) {
      std::uint64_t numbers[2];
      for (int part = 0; part < 2; ++part) {
        float* mine = x.data() + part * kColumns;
        std::fill_n(mine, kColumns, static_cast<float>(part + 1));
        numbers[part] = courier.Post({.x = mine, .out = out.data() + part * kColumns, .rows = 1, .columns = kColumns, .add = true});
      }
      for (const std::uint64_t number : numbers) {
        if (const Status status = courier.Wait(number); !status.ok()) return status.message();
      }
    }
    for (int i = 0; i < 2 * kColumns; ++i) {
      const float expected = 1.0f + 200.0f * 2.0f * static_cast<float>(i / kColumns + 1);
      if (out[static_cast<std::size_t>(i)] != expected) return "another sum at " + std::to_string(i);
    }
    return "";
  });
  for (const std::string& problem : said) EXPECT_EQ(problem, "");
}

// Would break: a rank that has lost another one hangs in its next step, or at its end.
TEST(CourierTest, ALostRankIsAnErrorForGood) {
  comm::Arena arena = comm::Arena::InProcess(2).value();
  const auto ranks = Join(arena, 0, std::chrono::milliseconds(50));
  Courier courier(*ranks);
  std::vector<float> x(kColumns), out(kColumns);
  const comm::Reduction sum{.x = x.data(), .out = out.data(), .rows = 1, .columns = kColumns};
  courier.Post(sum);
  const std::uint64_t last = courier.Post(sum);
  EXPECT_EQ(courier.Wait(last).code(), Code::kUnavailable);
  EXPECT_NE(courier.Wait(courier.Post(sum)).message().find("rank 1 "), std::string::npos);
}

}  // namespace
}  // namespace skein::model
