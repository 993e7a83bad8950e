// SPDX-License-Identifier: Apache-2.0
//
// Double binary tree: half of each chunk is summed up one tree and handed down it, the other half another one. Both are the in-order binary
// tree over places 1 … size, where place p is a leaf when it is odd; the second tree's places are one further round, so whoever is inside
// one tree is a leaf of the other and nobody carries more than two messages each way.
#include <bit>
#include <cstring>

#include "comm/collectives/all_reduce.h"

namespace skein::comm {
namespace {

// Place of the parent of `place` in the tree over 1 … size; 0 for the root.
int ParentOf(int place, int size) {
  if (place == static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))) return 0;
  const int low = place & -place;
  const int parent = (place ^ low) | (low << 1);
  return parent <= size ? parent : place ^ low;
}

struct Tree {
  int parent = -1;  // members; -1: none
  int children[2] = {-1, -1};

  Tree(int self, int size, int shift) {
    const auto place = [&](int member) { return (member + shift) % size + 1; };
    const auto member = [&](int at) { return (at - 1 + size - shift) % size; };
    const int up = ParentOf(place(self), size);
    if (up != 0) parent = member(up);
    int found = 0;
    for (int at = 1; at <= size; ++at) {
      if (ParentOf(at, size) == place(self)) children[found++] = member(at);
    }
  }
};

bool SumUp(Reducing& reducing, const Tree& tree, Units chunk, Units units) {
  Transport& transport = reducing.transport;
  const WireType type = reducing.ResultType();
  for (const int child : tree.children) {
    if (child < 0) continue;
    const std::byte* in = transport.Await(child, reducing.Bytes(type, units));
    if (in == nullptr) return false;
    reducing.AddToSums(type, chunk, units, in);
    transport.Release(child, Acknowledge::kNow);
  }
  if (tree.parent < 0) return true;
  std::byte* slot = transport.Open();
  if (slot == nullptr) return false;
  reducing.EncodeSums(type, chunk, units, slot);
  return transport.Post(tree.parent, slot, 0, reducing.Bytes(type, units));
}

bool HandDown(Reducing& reducing, const Tree& tree, Units chunk, Units units) {
  Transport& transport = reducing.transport;
  const WireType type = reducing.ResultType();
  const std::size_t bytes = reducing.Bytes(type, units);
  std::byte* slot = transport.Open();
  if (slot == nullptr) return false;
  if (tree.parent < 0) {
    reducing.EncodeSums(type, chunk, units, slot);
  } else {
    const std::byte* in = transport.Await(tree.parent, bytes);
    if (in == nullptr) return false;
    std::memcpy(slot, in, bytes);
    transport.Release(tree.parent, Acknowledge::kNow);
  }
  for (const int child : tree.children) {
    if (child >= 0 && !transport.Post(child, slot, 0, bytes)) return false;
  }
  reducing.TakeResult(type, units, slot);
  return true;
}

}  // namespace

Status ReduceDoubleTree(Reducing& reducing) {
  reducing.transport.Settle();
  const Tree first(reducing.self, reducing.size, 0), second(reducing.self, reducing.size, 1);
  for (Units chunk = reducing.ChunkAt(0); chunk.count() > 0; chunk = reducing.ChunkAt(chunk.end)) {
    reducing.CopyInputToSums(chunk);
    const Units low = chunk.Share(0, 2), high = chunk.Share(1, 2);
    if (!SumUp(reducing, first, chunk, low) || !SumUp(reducing, second, chunk, high) || !HandDown(reducing, first, chunk, low) ||
        !HandDown(reducing, second, chunk, high)) {
      return reducing.transport.status();
    }
    reducing.ChunkDone(chunk);
  }
  return OkStatus();
}

}  // namespace skein::comm
