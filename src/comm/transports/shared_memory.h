// SPDX-License-Identifier: Apache-2.0
//
// SharedMemoryTransport is `threads` and `shm`: members of one host, through an Arena.
//
// Short messages (ShortBytes) travel in lines of their own, each with its number; longer ones stay in the writer's slot and a flag tells of
// them. A longer message costs its writer one cache line per addressee besides the data, its reader the line and the data. A wait spins for about one
// wake-up, then sleeps on a futex of the peer's flag.
//
// Thread rule: each member's transport is used by one thread at a time. The arena outlives it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/transport.h"
#include "comm/transports/arena.h"

namespace skein::comm {

class SharedMemoryTransport final : public Transport {
 public:
  // The end of `member`. Errors: kInvalidArgument when there is no such member or it is taken.
  static Result<std::unique_ptr<Transport>> Create(Arena& arena, int member, TransportOptions options);

  std::byte* Open() override;
  void Prepare(std::size_t bytes) override;
  bool Post(int peer, const std::byte* slot, std::size_t begin, std::size_t end) override;
  const std::byte* Await(int peer, std::size_t bytes) override;
  void Release(int peer, Acknowledge when) override;
  void Settle() override;
  void Abandon() override { GiveUp(self(), "has left"); }

 private:
  SharedMemoryTransport(Arena& arena, int member, TransportOptions options);

  // What this member knows about a peer.
  struct Peer {
    Flag* mine;    // what I tell it
    Flag* theirs;  // what it tells me
    const std::byte* slots;
    Line* my_lines;
    const Line* their_lines;
    std::uint32_t posted = kFirstCount;       // by me to it
    std::uint32_t acknowledged = kFirstCount;  // of those, released by it as far as I know
    std::uint32_t awaited = kFirstCount;      // of its messages
    std::uint32_t released = kFirstCount;
    std::uint32_t told = kFirstCount;  // how many of `released` it knows about
  };
  // A slot's last message to a peer.
  struct Addressee {
    int peer;
    std::uint32_t message;  // it is read when so many are acknowledged
  };

  // Waits until ready() with `word`, which `peer` writes, changing; false when time is over.
  template <typename Ready>
  bool WaitFor(int peer, const std::atomic<std::uint32_t>& word, Ready ready);
  template <typename Ready>
  bool SleepUntil(int peer, const std::atomic<std::uint32_t>& word, Ready ready);
  bool WaitUntilRead(int peer, std::uint32_t message);
  bool PostShort(int peer, const std::byte* from, std::size_t bytes);
  const std::byte* AwaitShort(int peer, std::size_t bytes);
  bool IsShort(std::size_t bytes) const { return bytes <= short_bytes_; }
  // Whether a short message is there while `word` waits for a long one, or the other way round; then this member fails.
  bool SentOtherKind(int peer, const std::atomic<std::uint32_t>& word);
  void TellSizes(int peer, std::size_t found, std::size_t expected);
  std::byte* ShortBuffer(int peer, std::uint32_t message);
  // Whether all addressees are known to have read a slot.
  bool IsRead(int slot) const;
  // The place in order_ of the slot to open next: of those that are read the one used last, whose lines are still in this core's cache.
  int NextSlot() const;
  void Tell(Peer& peer);
  void Wake(Peer& peer, std::atomic<std::uint32_t>& word);
  void GiveUp(int peer, std::string_view problem);
  // Whether somebody has given up; then this member fails too.
  bool SomebodyGaveUp();

  Arena& arena_;
  std::byte* slots_;
  std::vector<Peer> peers_;
  std::array<std::vector<Addressee>, kSlots> addressees_;
  std::size_t short_bytes_;
  int lines_;  // of a short message at most
  std::vector<std::byte> short_buffers_;  // [members, kSlots, short_bytes + slack]: short messages put together
  std::array<int, kSlots> order_;  // slots, the last opened first
};

}  // namespace skein::comm
