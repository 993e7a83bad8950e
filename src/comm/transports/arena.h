// SPDX-License-Identifier: Apache-2.0
//
// Arena is the memory that the members of a group on one host share: flags and slots. In one process it is private memory, between
// processes a memfd: it has no name, so nothing is left when its processes are killed, and it is sealed, so that nobody can cut it off under
// a reader. Its owner creates it and hands the descriptor to children or by /proc; they attach. What is attached was made by somebody else and
// is checked first.
//
// Layout, version 1, little-endian; every offset is a multiple of 128 (two cache lines, which processors fetch together):
//
//   0       magic u64 "SKEINARN" | version u32 | members u32 | slot_bytes u64 | total_bytes u64 | CRC-32C u32 of what is before
//   128     Failure: who was given up and by whom
//   256     u32 per member: 1 when attached
//   flags   Flag [members (writer)] [members (reader)]
//   lines   Line [members (writer)] [members (reader)] [kSlots] [LinesOf(members)]
//   slots   [members] [kSlots] [slot_bytes + slack]
//
// Lives as long as the transports on it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "comm/transport.h"

namespace skein::comm {

// Counts of messages wrap. They begin shortly before, so that every run passes the place where they do.
constexpr std::uint32_t kFirstCount = 0xffffffc0;

// What one member (the writer) tells another (the reader), on cache lines that only the writer writes.
struct alignas(128) Flag {
  struct Message {
    std::uint32_t offset;  // in the writer's slots
    std::uint32_t bytes;
  };
  std::atomic<std::uint32_t> posted{kFirstCount};    // messages posted to the reader
  std::atomic<std::uint32_t> released{kFirstCount};  // messages of the reader that the writer has released
  std::atomic<std::uint32_t> sleeping{0};            // 1: the writer sleeps until the reader's flag changes
  std::uint32_t unused = 0;
  Message message[Transport::kSlots] = {};  // message n is at n mod kSlots
};
static_assert(sizeof(Flag) == 128 && sizeof(Flag::message) <= 48, "posted and its messages share one line of 64 bytes");

// A cache line of a short message: its number comes with the bytes, so that a reader waits for one line to travel, not for a flag and then
// for data. The number is written last and read first. The first line begins with a ShortHeader.
struct alignas(64) Line {
  static constexpr std::size_t kBytes = 60;
  std::byte bytes[kBytes];
  std::atomic<std::uint32_t> message{kFirstCount};  // the count that `posted` has with it
};

struct ShortHeader {
  std::uint32_t bytes;
  std::uint32_t released;  // as in Flag
};

// Short messages are written once for each addressee, so they are the shorter the more members there are.
constexpr std::size_t ShortBytes(int members) { return members < 2 ? 0 : static_cast<std::size_t>(3072 / (members - 1)); }
constexpr int LinesOf(int members) {
  return static_cast<int>((sizeof(ShortHeader) + ShortBytes(members) + Line::kBytes - 1) / Line::kBytes);
}

struct alignas(128) Failure {
  std::atomic<std::uint32_t> lost{0};      // member + 1 that was given up first; 0: nobody
  std::atomic<std::uint32_t> reporter{0};  // member + 1 that said so
};

class Arena {
 public:
  static constexpr std::size_t kSlotBytes = 128 << 10;

  // Private memory, for threads of this process. Errors: kInvalidArgument for no members or more than 256 or slots of odd
  // sizes; kLimit.
  static Result<Arena> InProcess(int members, std::size_t slot_bytes = kSlotBytes);
  // Shared memory; the descriptor is closed on exec until the caller says otherwise.
  static Result<Arena> Shared(int members, std::size_t slot_bytes = kSlotBytes);
  // What another process created; the descriptor is not kept. Errors: kInvalidFile saying what is wrong with it.
  static Result<Arena> Attach(int descriptor);
  ~Arena();
  Arena(Arena&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), total_bytes_(other.total_bytes_), members_(other.members_),
        slot_bytes_(other.slot_bytes_), descriptor_(std::exchange(other.descriptor_, -1)), shared_(other.shared_) {}
  Arena& operator=(Arena&&) = delete;

  int members() const { return members_; }
  std::size_t slot_bytes() const { return slot_bytes_; }
  // Of shared memory that this process created; -1 otherwise.
  int descriptor() const { return descriptor_; }
  bool shared() const { return shared_; }

  // Says that `member` is taken; false when it was already.
  bool TakeMember(int member);
  Failure& failure();
  Flag& FlagOf(int writer, int reader);
  Line* LinesFor(int writer, int reader);
  std::byte* SlotsOf(int member);
  std::size_t SlotStride() const { return slot_bytes_ + Transport::kSlack; }
  std::size_t SlotsBytes() const { return SlotStride() * Transport::kSlots; }

 private:
  Arena(std::byte* data, std::size_t total_bytes, int members, std::size_t slot_bytes, int descriptor, bool shared)
      : data_(data), total_bytes_(total_bytes), members_(members), slot_bytes_(slot_bytes), descriptor_(descriptor), shared_(shared) {}
  static Result<Arena> Create(int members, std::size_t slot_bytes, int descriptor);

  std::byte* data_;
  std::size_t total_bytes_;
  int members_;
  std::size_t slot_bytes_;
  int descriptor_;
  bool shared_ = false;
};

}  // namespace skein::comm
