// SPDX-License-Identifier: Apache-2.0
//
// One-shot: each member posts its contribution to all others and sums all of them itself, in the order of the host map. A slot is
// written once and read by everybody where it lies; acknowledgements travel with the next exchange.
#include "comm/collectives/all_reduce.h"

namespace skein::comm {

Status ReduceOneShot(Reducing& reducing) {
  Transport& transport = reducing.transport;
  const int self = reducing.self, size = reducing.size;
  const WireType type = reducing.ContributionType(self);
  for (Units chunk = reducing.ChunkAt(0); chunk.count() > 0; chunk = reducing.ChunkAt(chunk.end)) {
    std::byte* slot = transport.Open();
    if (slot == nullptr) return transport.status();
    reducing.EncodeInput(type, chunk, slot);
    const std::size_t bytes = reducing.Bytes(type, chunk);
    for (int i = 1; i < size; ++i) {
      if (!transport.Post((self + i) % size, slot, 0, bytes)) return transport.status();
    }
    for (int place = 0; place < size; ++place) {
      const int member = reducing.hosts.members[static_cast<std::size_t>(place)];
      const std::byte* in = slot;
      if (member != self) in = transport.Await(member, reducing.Bytes(reducing.ContributionType(member), chunk));
      if (in == nullptr) return transport.status();
      reducing.memory.contributions[static_cast<std::size_t>(place)] = in;
    }
    reducing.CombineIntoOutput(chunk);
    for (int i = 1; i < size; ++i) transport.Release((self + i) % size, Acknowledge::kWithNext);
    // The slot after next was read last by the peers; owning it again takes them a while.
    transport.Prepare(bytes);
    reducing.ChunkDone(chunk);
  }
  return OkStatus();
}

}  // namespace skein::comm
