// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/moving.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace skein::comm {
namespace {

// The piece of `size` bytes at `at`, as long as a slot allows.
std::size_t PieceAt(std::size_t at, std::size_t size, std::size_t slot_bytes) { return at >= size ? 0 : std::min(slot_bytes, size - at); }

}  // namespace

Status AllGather(Transport& transport, std::span<const std::byte> mine, std::span<const std::size_t> sizes, std::span<std::byte> out) {
  const int self = transport.self(), size = transport.size();
  SKEIN_CHECK(static_cast<int>(sizes.size()) == size && mine.size() == sizes[static_cast<std::size_t>(self)]);
  const std::size_t longest = *std::max_element(sizes.begin(), sizes.end());
  for (std::size_t at = 0; at < longest; at += transport.slot_bytes()) {
    const std::size_t piece = PieceAt(at, mine.size(), transport.slot_bytes());
    std::byte* slot = nullptr;
    if (piece != 0) {
      slot = transport.Open();
      if (slot == nullptr) return transport.status();
      std::memcpy(slot, mine.data() + at, piece);
    }
    for (int i = 1; i < size; ++i) {
      if (!transport.Post((self + i) % size, slot, 0, piece)) return transport.status();
    }
    std::byte* into = out.data();
    for (int member = 0; member < size; ++member) {
      const std::size_t theirs = sizes[static_cast<std::size_t>(member)];
      const std::size_t bytes = PieceAt(at, theirs, transport.slot_bytes());
      const std::byte* in = mine.data() + at;
      if (member != self) {
        in = transport.Await(member, bytes);
        if (in == nullptr) return transport.status();
      }
      if (bytes != 0 && in != into + at) std::memcpy(into + at, in, bytes);
      if (member != self) transport.Release(member, Acknowledge::kWithNext);
      into += theirs;
    }
  }
  return OkStatus();
}

Status Broadcast(Transport& transport, int root, std::span<std::byte> bytes) {
  transport.Settle();
  for (std::size_t at = 0; at < bytes.size(); at += transport.slot_bytes()) {
    const std::size_t piece = PieceAt(at, bytes.size(), transport.slot_bytes());
    if (transport.self() != root) {
      const std::byte* in = transport.Await(root, piece);
      if (in == nullptr) return transport.status();
      std::memcpy(bytes.data() + at, in, piece);
      transport.Release(root, Acknowledge::kNow);
      continue;
    }
    std::byte* slot = transport.Open();
    if (slot == nullptr) return transport.status();
    std::memcpy(slot, bytes.data() + at, piece);
    for (int member = 0; member < transport.size(); ++member) {
      if (member != root && !transport.Post(member, slot, 0, piece)) return transport.status();
    }
  }
  return OkStatus();
}

Status Send(Transport& transport, int to, std::span<const std::byte> bytes) {
  transport.Settle();
  for (std::size_t at = 0; at < bytes.size(); at += transport.slot_bytes()) {
    const std::size_t piece = PieceAt(at, bytes.size(), transport.slot_bytes());
    std::byte* slot = transport.Open();
    if (slot == nullptr) return transport.status();
    std::memcpy(slot, bytes.data() + at, piece);
    if (!transport.Post(to, slot, 0, piece)) return transport.status();
  }
  return OkStatus();
}

Status Receive(Transport& transport, int from, std::span<std::byte> bytes) {
  transport.Settle();
  for (std::size_t at = 0; at < bytes.size(); at += transport.slot_bytes()) {
    const std::size_t piece = PieceAt(at, bytes.size(), transport.slot_bytes());
    const std::byte* in = transport.Await(from, piece);
    if (in == nullptr) return transport.status();
    std::memcpy(bytes.data() + at, in, piece);
    transport.Release(from, Acknowledge::kNow);
  }
  return OkStatus();
}

Status Barrier(Transport& transport) {
  transport.Settle();
  const int self = transport.self(), size = transport.size();
  for (int distance = 1; distance < size; distance *= 2) {
    const int from = (self + size - distance) % size;
    if (!transport.Post((self + distance) % size, nullptr, 0, 0) || transport.Await(from, 0) == nullptr) return transport.status();
    transport.Release(from, Acknowledge::kNow);
  }
  return OkStatus();
}

}  // namespace skein::comm
