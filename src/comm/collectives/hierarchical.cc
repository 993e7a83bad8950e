// SPDX-License-Identifier: Apache-2.0
//
// Hierarchical: the first member of each host (its *leader*) sums its host's contributions; leaders post their host's sum to each other and
// combine them; each hands the result to its host. Between hosts only leaders' messages travel.
#include "comm/collectives/all_reduce.h"

namespace skein::comm {
namespace {

Status FollowLeader(Reducing& reducing, int leader, Units chunk) {
  Transport& transport = reducing.transport;
  std::byte* slot = transport.Open();
  if (slot == nullptr) return transport.status();
  reducing.EncodeInput(reducing.types.inner, chunk, slot);
  if (!transport.Post(leader, slot, 0, reducing.Bytes(reducing.types.inner, chunk))) return transport.status();
  const std::byte* in = transport.Await(leader, reducing.Bytes(reducing.ResultType(), chunk));
  if (in == nullptr) return transport.status();
  reducing.TakeResult(reducing.ResultType(), chunk, in);
  transport.Release(leader, Acknowledge::kNow);
  return OkStatus();
}

// The host's sum, encoded for other hosts, in a slot; null on failure.
std::byte* SumOfHost(Reducing& reducing, int host, std::span<const int> members, Units chunk) {
  Transport& transport = reducing.transport;
  std::byte* own = transport.Open();
  if (own == nullptr) return nullptr;
  reducing.EncodeInput(reducing.ContributionType(reducing.self), chunk, own);
  if (members.size() == 1) return own;
  const auto first = static_cast<std::size_t>(reducing.hosts.begin[static_cast<std::size_t>(host)]);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::byte* in = i == 0 ? own : transport.Await(members[i], reducing.Bytes(reducing.types.inner, chunk));
    if (in == nullptr) return nullptr;
    reducing.memory.contributions[first + i] = in;
  }
  std::byte* sum = transport.Open();
  if (sum == nullptr) return nullptr;
  reducing.SumHostIntoBytes(host, chunk, sum);
  for (const int member : members.subspan(1)) transport.Release(member, Acknowledge::kNow);
  return sum;
}

// Exchanges host sums with the other leaders; the result, in a slot.
std::byte* CombineLeaders(Reducing& reducing, int host, std::byte* sum, Units chunk) {
  Transport& transport = reducing.transport;
  const int hosts = reducing.hosts.hosts();
  const std::size_t bytes = reducing.Bytes(reducing.types.outer, chunk);
  const auto leader = [&](int other) { return reducing.hosts.MembersOf(other)[0]; };
  for (int i = 1; i < hosts; ++i) {
    if (!transport.Post(leader((host + i) % hosts), sum, 0, bytes)) return nullptr;
  }
  for (int other = 0; other < hosts; ++other) {
    const std::byte* in = other == host ? sum : transport.Await(leader(other), bytes);
    if (in == nullptr) return nullptr;
    reducing.memory.contributions[static_cast<std::size_t>(other)] = in;
  }
  std::byte* result = transport.Open();
  if (result == nullptr) return nullptr;
  reducing.CombineHostsIntoBytes(chunk, result);
  for (int i = 1; i < hosts; ++i) transport.Release(leader((host + i) % hosts), Acknowledge::kNow);
  return result;
}

}  // namespace

Status ReduceHierarchical(Reducing& reducing) {
  Transport& transport = reducing.transport;
  transport.Settle();
  const int host = reducing.hosts.HostOf(reducing.self);
  const std::span<const int> members = reducing.hosts.MembersOf(host);
  for (Units chunk = reducing.ChunkAt(0); chunk.count() > 0; chunk = reducing.ChunkAt(chunk.end)) {
    if (members[0] != reducing.self) {
      SKEIN_RETURN_IF_ERROR(FollowLeader(reducing, members[0], chunk));
    } else {
      std::byte* result = SumOfHost(reducing, host, members, chunk);
      if (result != nullptr && reducing.hosts.hosts() > 1) result = CombineLeaders(reducing, host, result, chunk);
      if (result == nullptr) return transport.status();
      for (const int member : members.subspan(1)) {
        if (!transport.Post(member, result, 0, reducing.Bytes(reducing.ResultType(), chunk))) return transport.status();
      }
      reducing.TakeResult(reducing.ResultType(), chunk, result);
    }
    reducing.ChunkDone(chunk);
  }
  return OkStatus();
}

}  // namespace skein::comm
