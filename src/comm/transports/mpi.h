// SPDX-License-Identifier: Apache-2.0
//
// `mpi`: ranks of a job that mpirun or srun started, on one host or many. MpiJob loads the plugin and joins the job; MpiTransport is one member's
// end of a group in it. Every send and receive is begun and then tested until a deadline. MPI can take nothing back: after a failure the process
// should end without leaving the job in order, and its launcher ends the others.
//
// What travels is neither encrypted nor authenticated: between hosts MPI wants a network that is trusted.
//
// Thread rule: calls of one process, on all its transports, are made by one thread at a time.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "comm/transport.h"
#include "comm/transports/mpi_plugin.h"

namespace skein::comm {

class MpiJob {
 public:
  // Whether this process was started by an MPI launcher.
  static bool Launched();
  // Whether the plugin can be found, without joining anything.
  static bool Available();
  // Joins. Errors: kMissing when there is no plugin or no MPI, saying what to install; kUnavailable when the job cannot be joined.
  static Result<MpiJob> Join();
  MpiJob(MpiJob&& other) noexcept : plugin_(other.plugin_), hosts_(std::move(other.hosts_)) {}
  MpiJob& operator=(MpiJob&&) = delete;

  int rank() const { return plugin_->rank(); }
  int size() const { return plugin_->size(); }
  // A number for each rank's host: the same for ranks that share memory and network.
  const std::vector<int>& hosts() const { return hosts_; }
  // MPI's own all-reduce, for comparison.
  Status AllReduce(const float* x, float* out, std::size_t count);
  // All ranks leave; not after an error.
  void Leave() { plugin_->finish(); }

 private:
  friend class MpiTransport;
  MpiJob(const MpiPlugin* plugin, std::vector<int> hosts) : plugin_(plugin), hosts_(std::move(hosts)) {}

  const MpiPlugin* plugin_;
  std::vector<int> hosts_;
};

class MpiTransport final : public Transport {
 public:
  // Of messages up to so many bytes MPI's transports for networks need no answer before they are sent.
  static constexpr std::size_t kSlotBytes = 48 << 10;

  // `tag` keeps groups with common members apart; the same for all members, below 2^15.
  static std::unique_ptr<Transport> Create(const MpiJob& job, const Group& group, int tag, TransportOptions options,
                                           std::size_t slot_bytes = kSlotBytes);

  std::byte* Open() override;
  // `slot` may also be memory of somebody else's, who then asks WaitUntilSent before it is used again.
  bool Post(int peer, const std::byte* slot, std::size_t begin, std::size_t end) override;
  const std::byte* Await(int peer, std::size_t bytes) override;
  void Release(int /*peer*/, Acknowledge /*when*/) override {}
  void Settle() override {}
  void Drain() override;
  // Returns when all that was posted from `slot` has left it.
  bool WaitUntilSent(const std::byte* slot);

 private:
  struct Sending {
    int request;
    int peer;
    const std::byte* slot;  // null: an empty message
  };
  struct Peer {
    int rank;
    unsigned awaited = 0;
    std::array<std::vector<std::byte>, kSlots> received;
  };

  MpiTransport(const MpiJob& job, const Group& group, int tag, TransportOptions options, std::size_t slot_bytes);
  // Until the request is done; what came. False on failure.
  bool WaitFor(int request, int peer, std::size_t& bytes);

  const MpiPlugin& plugin_;
  int tag_;
  std::vector<Peer> peers_;
  std::array<std::vector<std::byte>, kSlots> slots_;
  std::size_t slot_ = kSlots - 1;  // the last opened
  std::vector<Sending> sending_;
};

}  // namespace skein::comm
