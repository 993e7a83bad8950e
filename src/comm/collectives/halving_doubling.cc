// SPDX-License-Identifier: Apache-2.0
//
// Recursive halving and doubling: with partners at distance size/2, size/4 … 1 members exchange halves of what they still hold, each adding
// the half it keeps; then the halves come back in the opposite order, as results. Of a number of members that is no power of two those
// above it hand their contribution to a partner below and get the result from it.
#include <bit>
#include <cstring>

#include "comm/collectives/all_reduce.h"

namespace skein::comm {
namespace {

class Halving {
 public:
  explicit Halving(Reducing& reducing)
      : reducing_(reducing), transport_(reducing.transport), self_(reducing.self),
        power_(static_cast<int>(std::bit_floor(static_cast<unsigned>(reducing.size)))), extra_(reducing.size - power_),
        type_(reducing.ResultType()) {}

  Status Reduce(Units chunk) {
    reducing_.CopyInputToSums(chunk);
    if (self_ >= power_) {
      if (!SendSums(self_ - power_, chunk, chunk) || !TakeAll(self_ - power_, chunk)) return transport_.status();
      return OkStatus();
    }
    if (self_ < extra_ && !AddFrom(self_ + power_, chunk, chunk)) return transport_.status();
    Units held = chunk;
    for (int distance = power_ / 2; distance > 0; distance /= 2) {
      const int peer = self_ ^ distance;
      const Units low = held.Share(0, 2), high = held.Share(1, 2);
      const bool keep_low = (self_ & distance) == 0;
      if (!SendSums(peer, chunk, keep_low ? high : low)) return transport_.status();
      held = keep_low ? low : high;
      if (!AddFrom(peer, chunk, held)) return transport_.status();
    }
    reducing_.EncodeSums(type_, chunk, held, At(chunk, held));
    for (int distance = 1; distance < power_; distance *= 2) {
      const int peer = self_ ^ distance;
      const Units theirs = HeldBy(peer, distance, chunk);
      if (!SendBytes(peer, chunk, held) || !TakeBytes(peer, chunk, theirs)) return transport_.status();
      held = {std::min(held.begin, theirs.begin), std::max(held.end, theirs.end)};
    }
    if (self_ < extra_ && !SendBytes(self_ + power_, chunk, chunk)) return transport_.status();
    reducing_.TakeResult(type_, chunk, reducing_.memory.encoded.data());
    return OkStatus();
  }

 private:
  // What `member` holds before the exchange at `distance` on the way back.
  Units HeldBy(int member, int distance, Units chunk) const {
    Units held = chunk;
    for (int d = power_ / 2; d >= distance; d /= 2) held = held.Share((member & d) == 0 ? 0 : 1, 2);
    return held;
  }
  std::byte* At(Units chunk, Units units) {
    return reducing_.memory.encoded.data() + reducing_.Bytes(type_, {chunk.begin, units.begin});
  }
  bool SendSums(int peer, Units chunk, Units units) {
    std::byte* slot = transport_.Open();
    if (slot == nullptr) return false;
    reducing_.EncodeSums(type_, chunk, units, slot);
    return transport_.Post(peer, slot, 0, reducing_.Bytes(type_, units));
  }
  bool AddFrom(int peer, Units chunk, Units units) {
    const std::byte* in = transport_.Await(peer, reducing_.Bytes(type_, units));
    if (in == nullptr) return false;
    reducing_.AddToSums(type_, chunk, units, in);
    transport_.Release(peer, Acknowledge::kNow);
    return true;
  }
  bool SendBytes(int peer, Units chunk, Units units) {
    std::byte* slot = transport_.Open();
    if (slot == nullptr) return false;
    std::memcpy(slot, At(chunk, units), reducing_.Bytes(type_, units));
    return transport_.Post(peer, slot, 0, reducing_.Bytes(type_, units));
  }
  bool TakeBytes(int peer, Units chunk, Units units) {
    const std::byte* in = transport_.Await(peer, reducing_.Bytes(type_, units));
    if (in == nullptr) return false;
    std::memcpy(At(chunk, units), in, reducing_.Bytes(type_, units));
    transport_.Release(peer, Acknowledge::kNow);
    return true;
  }
  bool TakeAll(int peer, Units chunk) {
    if (!TakeBytes(peer, chunk, chunk)) return false;
    reducing_.TakeResult(type_, chunk, reducing_.memory.encoded.data());
    return true;
  }

  Reducing& reducing_;
  Transport& transport_;
  const int self_, power_, extra_;
  const WireType type_;
};

}  // namespace

Status ReduceHalvingDoubling(Reducing& reducing) {
  reducing.transport.Settle();
  Halving halving(reducing);
  for (Units chunk = reducing.ChunkAt(0); chunk.count() > 0; chunk = reducing.ChunkAt(chunk.end)) {
    SKEIN_RETURN_IF_ERROR(halving.Reduce(chunk));
    reducing.ChunkDone(chunk);
  }
  return OkStatus();
}

}  // namespace skein::comm
