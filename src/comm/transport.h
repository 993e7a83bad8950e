// SPDX-License-Identifier: Apache-2.0
//
// Transport is one member's end of a group's communication: messages between members, in order for each pair, through
// slots. A slot is memory of this member in which a message is put together once and then posted, whole or in parts, to any number of
// peers; a peer reads it where the transport put it.
//
//   std::byte* slot = transport.Open();                 // waits until what lay there is read
//   … write up to slot_bytes() …
//   transport.Post(peer, slot, begin, end);             // for each addressee
//   const std::byte* in = transport.Await(peer, bytes); // the peer's next message
//   … read …
//   transport.Release(peer, Acknowledge::kNow);
//
// Every wait ends: with data, or when `timeout` is over, or when a peer has given up. Then the call returns null or false and status()
// names the rank and the operation; from then on every call fails at once and the peers are told.
//
// Requires: at most kSlots - 1 messages of one operation unread by the same peer; peers agree about sizes and order (checked where it shows).
// Thread rule: one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace skein::comm {

enum class Acknowledge {
  kNow,
  // With the next message to that peer. For exchanges in which every member posts to and awaits every other one; whatever
  // else follows on this transport begins with Settle().
  kWithNext,
};

struct TransportOptions {
  std::chrono::nanoseconds timeout = std::chrono::seconds(2);  // of one wait
  // Whether waiting may spin first: no, when there are more runnable threads than cores.
  bool spin = true;
  // How messages call the members; empty: by their number.
  std::vector<int> ranks = {};
};

// Sums since a transport was made.
struct TransportCounts {
  std::uint64_t bytes_posted = 0;  // once for each addressee
  std::uint64_t waited_ns = 0;     // for peers that were late; what takes less than about a microsecond is no wait
};

class Transport {
 public:
  static constexpr int kSlots = 4;
  // Messages and slots may be read, slots also written, so many bytes beyond their end.
  static constexpr std::size_t kSlack = 256;

  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int self() const { return self_; }
  int size() const { return size_; }
  std::size_t slot_bytes() const { return slot_bytes_; }
  std::string_view name() const { return name_; }  // "threads", "shm", "mpi"
  // Ok until the first failure.
  const Status& status() const { return status_; }
  virtual TransportCounts counts() const { return counts_; }
  // What errors call the work that goes on: a literal.
  virtual void set_operation(const char* operation) { operation_ = operation; }
  // Of waits from now on: a rank that waits for the next step's plan is patient, one within a step is not.
  virtual void set_timeout(std::chrono::nanoseconds timeout) { options_.timeout = timeout; }
  std::chrono::nanoseconds timeout() const { return options_.timeout; }
  // Of waits from now on: whether somebody else computes on this core meanwhile, so that looking all the time would take his.
  virtual void set_beside(bool beside) { beside_ = beside; }

  // A slot that nobody reads, aligned to 64 bytes; null on failure. What was opened last
  // stays readable for this member until the call after the next one.
  [[nodiscard]] virtual std::byte* Open() = 0;
  // Says that the next slot opened will probably get so many bytes: time to fetch it for writing.
  virtual void Prepare(std::size_t /*bytes*/) {}
  // Sends bytes [begin, end) of the last opened slot. An empty message needs no slot (null).
  [[nodiscard]] virtual bool Post(int peer, const std::byte* slot, std::size_t begin, std::size_t end) = 0;
  // The next message of `peer`, which has to have `bytes` bytes; null on failure. Empty messages give a pointer not to be read.
  [[nodiscard]] virtual const std::byte* Await(int peer, std::size_t bytes) = 0;
  // The oldest message awaited from `peer` and not released yet is read.
  virtual void Release(int peer, Acknowledge when) = 0;
  // Sends the acknowledgements that were left for later.
  virtual void Settle() = 0;
  // Tells the peers that this member will not go on, where that is possible: their waits end at once instead of at the deadline.
  virtual void Abandon() {}
  // Returns when the peers no longer need this end's memory or help (sends of MPI), or time is over: before the end of its life.
  virtual void Drain() {}

 protected:
  Transport(std::string_view name, int self, int size, std::size_t slot_bytes, TransportOptions options)
      : name_(name), self_(self), size_(size), slot_bytes_(slot_bytes), options_(std::move(options)) {}
  // Keeps the first failure. `problem` follows "<operation>: rank N ".
  void FailAt(int peer, std::string_view problem);
  // Fails as another transport did that works for this one.
  void FailWith(const Status& status);
  int NameOf(int member) const {
    return options_.ranks.empty() ? member : options_.ranks[static_cast<std::size_t>(member)];
  }
  const TransportOptions& options() const { return options_; }
  void CountPosted(std::size_t bytes) { counts_.bytes_posted += bytes; }
  void CountWaited(std::chrono::nanoseconds time) { counts_.waited_ns += static_cast<std::uint64_t>(time.count()); }
  bool failed() const { return failed_; }
  bool beside() const { return beside_; }

 private:
  std::string_view name_;
  int self_;
  int size_;
  std::size_t slot_bytes_;
  TransportOptions options_;
  TransportCounts counts_;
  const char* operation_ = "communication";
  bool failed_ = false;
  bool beside_ = false;
  Status status_;
};

}  // namespace skein::comm
