// SPDX-License-Identifier: Apache-2.0
//
// One-shot: each member posts its contribution to all others and sums all of them itself, in the order of the host map. A slot is
// written once and read by everybody where it lies; acknowledgements travel with the next exchange. The chunk after the one that is
// waited for is already on its way.
#include "comm/collectives/all_reduce.h"

namespace skein::comm {
namespace {

// Encodes a chunk and posts it to all; where it lies, or null.
std::byte* PostChunk(Reducing& reducing, WireType type, Units chunk) {
  Transport& transport = reducing.transport;
  std::byte* slot = transport.Open();
  if (slot == nullptr) return nullptr;
  reducing.EncodeInput(type, chunk, slot);
  const std::size_t bytes = reducing.Bytes(type, chunk);
  for (int i = 1; i < reducing.size; ++i) {
    if (!transport.Post((reducing.self + i) % reducing.size, slot, 0, bytes)) return nullptr;
  }
  return slot;
}

}  // namespace

Status ReduceOneShot(Reducing& reducing) {
  Transport& transport = reducing.transport;
  const int self = reducing.self, size = reducing.size;
  const WireType type = reducing.ContributionType(self);
  Units chunk = reducing.ChunkAt(0);
  if (chunk.count() == 0) return OkStatus();
  std::byte* slot = PostChunk(reducing, type, chunk);
  while (slot != nullptr) {
    const Units next = reducing.ChunkAt(chunk.end);
    std::byte* next_slot = next.count() > 0 ? PostChunk(reducing, type, next) : slot;
    if (next_slot == nullptr) break;
    for (int place = 0; place < size; ++place) {
      const int member = reducing.hosts.members[static_cast<std::size_t>(place)];
      const std::byte* in = slot;
      if (member != self) in = transport.Await(member, reducing.Bytes(reducing.ContributionType(member), chunk));
      if (in == nullptr) return transport.status();
      reducing.memory.contributions[static_cast<std::size_t>(place)] = in;
    }
    reducing.CombineIntoOutput(chunk);
    for (int i = 1; i < size; ++i) transport.Release((self + i) % size, Acknowledge::kWithNext);
    if (next.count() == 0) {
      // Owning again what peers have read takes a while.
      transport.Prepare(reducing.Bytes(type, chunk));
      reducing.ChunkDone(chunk);
      return OkStatus();
    }
    reducing.ChunkDone(chunk);
    chunk = next;
    slot = next_slot;
  }
  return transport.status();
}

}  // namespace skein::comm
