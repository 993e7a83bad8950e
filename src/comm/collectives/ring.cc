// SPDX-License-Identifier: Apache-2.0
//
// Ring: shares go round once being added to, then once more as results. In step k of the first round a member passes share (self - k) on and
// adds what it has of share (self - k - 1) to what arrives, so that after size - 1 steps it holds the sum of share (self + 1).
#include <cstring>

#include "comm/collectives/all_reduce.h"

namespace skein::comm {
namespace {

class Ring {
 public:
  explicit Ring(Reducing& reducing)
      : reducing_(reducing), transport_(reducing.transport), self_(reducing.self), size_(reducing.size),
        next_((self_ + 1) % size_), previous_((self_ + size_ - 1) % size_), type_(reducing.ResultType()) {}

  Status Reduce(Units chunk) {
    reducing_.CopyInputToSums(chunk);
    for (int step = 0; step + 1 < size_; ++step) {
      std::byte* slot = transport_.Open();
      if (slot == nullptr) return transport_.status();
      const Units give = ShareOf(chunk, self_ - step);
      reducing_.EncodeSums(type_, chunk, give, slot);
      const Units take = ShareOf(chunk, self_ - step - 1);
      const std::byte* in = Pass(slot, give, take);
      if (in == nullptr) return transport_.status();
      reducing_.AddToSums(type_, chunk, take, in);
      transport_.Release(previous_, Acknowledge::kNow);
    }
    std::byte* slot = transport_.Open();
    if (slot == nullptr) return transport_.status();
    reducing_.EncodeSums(type_, chunk, ShareOf(chunk, self_ + 1), slot);
    reducing_.TakeResult(type_, ShareOf(chunk, self_ + 1), slot);
    for (int step = 0; step + 1 < size_; ++step) {
      const Units take = ShareOf(chunk, self_ - step);
      const std::byte* in = Pass(slot, ShareOf(chunk, self_ + 1 - step), take);
      if (in == nullptr) return transport_.status();
      reducing_.TakeResult(type_, take, in);
      if (step + 2 < size_) {
        slot = transport_.Open();
        if (slot == nullptr) return transport_.status();
        std::memcpy(slot, in, reducing_.Bytes(type_, take));
      }
      transport_.Release(previous_, Acknowledge::kNow);
    }
    return OkStatus();
  }

 private:
  Units ShareOf(Units chunk, int share) const { return chunk.Share((share % size_ + size_) % size_, size_); }
  const std::byte* Pass(const std::byte* slot, Units give, Units take) {
    if (!transport_.Post(next_, slot, 0, reducing_.Bytes(type_, give))) return nullptr;
    return transport_.Await(previous_, reducing_.Bytes(type_, take));
  }

  Reducing& reducing_;
  Transport& transport_;
  const int self_, size_, next_, previous_;
  const WireType type_;
};

}  // namespace

Status ReduceRing(Reducing& reducing) {
  reducing.transport.Settle();
  Ring ring(reducing);
  for (Units chunk = reducing.ChunkAt(0); chunk.count() > 0; chunk = reducing.ChunkAt(chunk.end)) {
    SKEIN_RETURN_IF_ERROR(ring.Reduce(chunk));
    reducing.ChunkDone(chunk);
  }
  return OkStatus();
}

}  // namespace skein::comm
