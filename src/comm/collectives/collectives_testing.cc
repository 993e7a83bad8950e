// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/collectives_testing.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "base/wire.h"
#include "comm/collectives/moving.h"

namespace skein::comm {
namespace {

struct Size {
  int rows, columns, gap;  // columns between rows
};
constexpr Size kSizes[] = {{1, 1, 0}, {1, 64, 0}, {1, 577, 0}, {3, 100, 0}, {2, 192, 7}, {9, 512, 0}, {4, 1100, 3}};

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

}  // namespace

std::string CheckSums(Communicator& communicator, unsigned seed) {
  std::mt19937 random(seed);
  const HostMap& hosts = communicator.group().hosts;
  const WireTypes wire = communicator.options().wire;
  const int members = communicator.size();
  unsigned salt = 0;
  for (const Size& size : kSizes) {
    ++salt;
    const Target target = {members == 1 ? InputOf(0, size, salt) : Wanted(hosts, wire, size, salt), ExactSum(members, size, salt)};
    for (const AlgorithmInfo& info : Algorithms()) {
      // Whoever comes late must find what the others left for it.
      if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      const std::string problem = Check(communicator, info, size, salt % 2 == 1, salt, target);
      if (!problem.empty()) {
        return fmt::format("{}, {} hosts, wire {}/{}, {} × {}: {}", info.name, hosts.hosts(), NameOf(wire.inner), NameOf(wire.outer), size.rows,
                           size.columns, problem);
      }
    }
  }
  return "";
}

std::string CheckMoving(Transport& transport, int rounds) {
  std::mt19937 order(7);  // everybody's is the same
  std::mt19937 own(static_cast<unsigned>(transport.self()));
  std::string problem;
  for (int round = 0; round < rounds && problem.empty(); ++round) {
    if (own() % 12 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 200));
    Status status;
    switch (order() % 4) {
      case 0: status = GatherRound(transport, round, problem); break;
      case 1: status = PipeRound(transport, round, problem); break;
      case 2: status = BroadcastRound(transport, round, problem); break;
      default: status = Barrier(transport); break;
    }
    if (!status.ok()) return status.message();
  }
  return problem;
}

}  // namespace skein::comm
