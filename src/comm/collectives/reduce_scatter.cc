// SPDX-License-Identifier: Apache-2.0
//
// Direct reduce-scatter and gather: member i sums share i of everybody's contribution, which it reads where it lies, and posts the rounded
// result to all. Both rounds are exchanges of all with all.
#include "comm/collectives/all_reduce.h"

namespace skein::comm {

Status ReduceByScatter(Reducing& reducing) {
  Transport& transport = reducing.transport;
  const int self = reducing.self, size = reducing.size;
  const WireType type = reducing.ContributionType(self), result = reducing.ResultType();
  for (Units chunk = reducing.ChunkAt(0); chunk.count() > 0; chunk = reducing.ChunkAt(chunk.end)) {
    const Units mine = chunk.Share(self, size);
    std::byte* slot = transport.Open();
    if (slot == nullptr) return transport.status();
    reducing.EncodeInput(type, chunk, slot);
    const auto at = [&](std::int64_t unit) { return reducing.Bytes(type, {chunk.begin, unit}); };
    for (int i = 1; i < size; ++i) {
      const int peer = (self + i) % size;
      const Units share = chunk.Share(peer, size);
      if (!transport.Post(peer, slot, at(share.begin), at(share.end))) return transport.status();
    }
    for (int place = 0; place < size; ++place) {
      const int member = reducing.hosts.members[static_cast<std::size_t>(place)];
      const std::byte* in = slot + at(mine.begin);
      if (member != self) in = transport.Await(member, reducing.Bytes(reducing.ContributionType(member), mine));
      if (in == nullptr) return transport.status();
      reducing.memory.contributions[static_cast<std::size_t>(place)] = in;
    }
    std::byte* sums = transport.Open();
    if (sums == nullptr) return transport.status();
    reducing.CombineIntoBytes(mine, sums);
    for (int i = 1; i < size; ++i) {
      const int peer = (self + i) % size;
      transport.Release(peer, Acknowledge::kWithNext);
      if (!transport.Post(peer, sums, 0, reducing.Bytes(result, mine))) return transport.status();
    }
    reducing.TakeResult(result, mine, sums);
    for (int i = 1; i < size; ++i) {
      const int peer = (self + i) % size;
      const Units share = chunk.Share(peer, size);
      const std::byte* in = transport.Await(peer, reducing.Bytes(result, share));
      if (in == nullptr) return transport.status();
      reducing.TakeResult(result, share, in);
      transport.Release(peer, Acknowledge::kWithNext);
    }
    reducing.ChunkDone(chunk);
  }
  return OkStatus();
}

}  // namespace skein::comm
