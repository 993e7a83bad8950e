// SPDX-License-Identifier: Apache-2.0
//
// If a sum depended on the route it took, or members got different ones, a token would depend on the batch and ranks would drift apart.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "base/wire.h"
#include "comm/collectives/moving.h"
#include "comm/comm_testing.h"
#include "comm/communicator.h"
#include "comm/transports/shared_memory.h"

namespace skein::comm {
namespace {

constexpr std::size_t kSlotBytes = 4096;  // so that larger messages go in several chunks
struct Size {
  int rows, columns, gap;  // columns between rows
};
constexpr Size kSizes[] = {{1, 1, 0}, {1, 64, 0}, {1, 577, 0}, {3, 100, 0}, {2, 192, 7}, {9, 512, 0}, {4, 1100, 3}};
constexpr WireTypes kWires[] = {{WireType::kFp32, WireType::kFp32},
                                {WireType::kBf16, WireType::kBf16},
                                {WireType::kInt8, WireType::kInt8},
                                {WireType::kFp32, WireType::kInt8},
                                {WireType::kBf16, WireType::kFp32}};

std::vector<float> InputOf(int member, const Size& size, unsigned salt) {
  std::mt19937 random(static_cast<unsigned>(member) * 977U + salt);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::vector<float> x(static_cast<std::size_t>(size.rows * (size.columns + size.gap)));
  for (float& value : x) value = normal(random);
  return x;
}

// What every member must get: contributions as their types, the reference's sum.
std::vector<float> Wanted(const HostMap& hosts, WireTypes wire, const Size& size, unsigned salt) {
  const WireKernels& ref = SelectWire(kernels::KernelPath::kRef);
  const auto stride = static_cast<std::size_t>(size.columns + size.gap);
  std::vector<float> out(static_cast<std::size_t>(size.rows) * stride);
  std::vector<std::vector<float>> inputs;
  for (const int member : hosts.members) inputs.push_back(InputOf(member, size, salt));
  for (std::size_t row = 0; row < static_cast<std::size_t>(size.rows); ++row) {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<const std::byte*> pointers;
    for (int host = 0; host < hosts.hosts(); ++host) {
      const WireType type = hosts.hosts() > 1 && hosts.SizeOf(host) == 1 ? wire.outer : wire.inner;
      for (int i = 0; i < hosts.SizeOf(host); ++i) {
        bytes.emplace_back(WireLayout{type, size.columns}.RowBytes() + kWireSlack);
        ref.encode(type, inputs[bytes.size() - 1].data() + row * stride, size.columns, bytes.back().data());
      }
    }
    for (const auto& one : bytes) pointers.push_back(one.data());
    ref.combine({pointers.data(), hosts.begin.data(), hosts.hosts()}, wire, size.columns, false, out.data() + row * stride);
  }
  return out;
}

// The sum without any rounding but the last.
std::vector<double> ExactSum(int members, const Size& size, unsigned salt) {
  std::vector<double> sum(static_cast<std::size_t>(size.rows * (size.columns + size.gap)));
  for (int member = 0; member < members; ++member) {
    const std::vector<float> x = InputOf(member, size, salt);
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] += x[i];
  }
  return sum;
}

struct Case {
  HostMap hosts;
  WireTypes wire;
  Arena arena;
};

// Rows that were said to be done.
struct DoneRows {
  int next = 0;
  bool in_order = true;
  static void Take(void* context, int begin, int end) {
    auto& done = *static_cast<DoneRows*>(context);
    done.in_order = done.in_order && begin == done.next && end > begin;
    done.next = end;
  }
};

// What every member must get, and what it should be near to.
struct Target {
  std::vector<float> wanted;
  std::vector<double> exact;
};

std::string Check(Communicator& communicator, const AlgorithmInfo& info, const Size& size, bool add, unsigned salt, const Target& target) {
  const int members = communicator.size();
  const std::vector<float> x = InputOf(communicator.self(), size, salt);
  const std::vector<float> before(x.size(), add ? 0.5f : -7.0f);
  std::vector<float> out = before;
  DoneRows done;
  const std::ptrdiff_t stride = size.gap == 0 ? 0 : size.columns + size.gap;
  const Status status = communicator.AllReduceBy(info.algorithm, {.x = x.data(), .out = out.data(), .rows = size.rows,
                                                                  .columns = size.columns, .x_stride = stride, .out_stride = stride,
                                                                  .add = add, .done = {&DoneRows::Take, &done}});
  if (!status.ok()) return status.message();
  if (done.next != size.rows || !done.in_order) return fmt::format("{} of {} rows were said to be done", done.next, size.rows);
  const auto& [wanted, exact] = target;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (static_cast<int>(i) % (size.columns + size.gap) >= size.columns) {
      if (out[i] != before[i]) return fmt::format("wrote between rows at {}", i);
      continue;
    }
    const float sum = add ? before[i] + wanted[i] : wanted[i];
    if (info.exact && std::memcmp(&out[i], &sum, 4) != 0) return fmt::format("[{}] is {}, wanted {}", i, out[i], sum);
    const WireTypes wire = communicator.options().wire;
    const bool coarse = wire.inner == WireType::kInt8 || wire.outer == WireType::kInt8;
    const bool fine = wire.inner == WireType::kFp32 && wire.outer == WireType::kFp32;
    // Each rounding of a sum errs by at most its half step; a sum is rounded at most 2 log2 or `members` times.
    const double bound = (fine ? 1e-5 : coarse ? 0.08 : 0.05) * members;
    if (std::fabs(out[i] - (add ? 0.5 : 0.0) - exact[i]) > bound) return fmt::format("[{}] is {}, far from {}", i, out[i], exact[i]);
  }
  // All members have the same.
  const std::uint32_t crc = wire::Crc32c(std::as_bytes(std::span(out)));
  std::vector<std::uint32_t> all(static_cast<std::size_t>(members));
  const std::vector<std::size_t> sizes(all.size(), sizeof crc);
  const Status gathered = communicator.AllGather(std::as_bytes(std::span(&crc, 1)), sizes, std::as_writable_bytes(std::span(all)));
  if (!gathered.ok()) return gathered.message();
  for (const std::uint32_t other : all) {
    if (other != crc) return "members have different results";
  }
  return "";
}

std::string RunMember(std::vector<Case>& cases, int member) {
  std::mt19937 random(static_cast<unsigned>(member) + 5U);
  for (Case& one : cases) {
    Group group = Group::OnOneHost(one.arena.members(), member);
    group.hosts = one.hosts;
    TransportOptions options;
    options.timeout = std::chrono::seconds(60);
    options.spin = random() % 2 == 0;
    auto transport = SharedMemoryTransport::Create(one.arena, member, options);
    if (!transport.ok()) return transport.status().message();
    const auto path = member % 2 == 0 ? kernels::AvailablePaths().front() : kernels::KernelPath::kRef;
    Communicator communicator(group, std::move(transport).value(), {.wire = one.wire, .kernels = path});
    unsigned salt = 0;
    for (const Size& size : kSizes) {
      ++salt;
      const int members = one.arena.members();
      const Target target = {members == 1 ? InputOf(0, size, salt) : Wanted(one.hosts, one.wire, size, salt), ExactSum(members, size, salt)};
      for (const AlgorithmInfo& info : Algorithms()) {
        // Whoever comes late must find what the others left for it.
        if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
        const std::string problem = Check(communicator, info, size, salt % 2 == 1, salt, target);
        if (!problem.empty()) {
          return fmt::format("{}, {} hosts, wire {}/{}, {} × {}: {}", info.name, one.hosts.hosts(), NameOf(one.wire.inner),
                             NameOf(one.wire.outer), size.rows, size.columns, problem);
        }
      }
    }
  }
  return "";
}

class AllReduce : public testing::TestWithParam<std::tuple<RankKind, int>> {};

TEST_P(AllReduce, GivesTheOneSumOnEveryRoute) {
  const auto [kind, members] = GetParam();
  std::vector<Case> cases;
  for (const WireTypes wire : kWires) {
    for (const int hosts : {1, 2, 3, members}) {
      if (hosts > members || (hosts > 1 && hosts < members && hosts == 3 && members < 4)) continue;
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
