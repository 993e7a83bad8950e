// SPDX-License-Identifier: Apache-2.0
//
// RoutedTransport is what ranks of an MPI job use: shared memory to members of the same host, MPI to the others. A message is put together in a
// slot of shared memory once; MPI sends from there too.
//
// Thread rule: as MpiTransport.
#pragma once

#include <memory>
#include <vector>

#include "comm/transports/arena.h"
#include "comm/transports/mpi.h"

namespace skein::comm {

class RoutedTransport final : public Transport {
 public:
  // All members call it at once; group.hosts says who shares memory. Where somebody cannot have the memory (processes that do not see
  // each other), all use MPI alone. `tag` as in MpiTransport.
  static Result<std::unique_ptr<Transport>> Create(const MpiJob& job, const Group& group, int tag, TransportOptions options,
                                                   std::size_t slot_bytes = MpiTransport::kSlotBytes);

  void set_operation(const char* operation) override;
  void set_timeout(std::chrono::nanoseconds timeout) override;
  void set_beside(bool beside) override;
  TransportCounts counts() const override;
  std::byte* Open() override;
  void Prepare(std::size_t bytes) override { local_->Prepare(bytes); }
  bool Post(int peer, const std::byte* slot, std::size_t begin, std::size_t end) override;
  const std::byte* Await(int peer, std::size_t bytes) override;
  void Release(int peer, Acknowledge when) override;
  void Settle() override { local_->Settle(); }
  void Abandon() override { local_->Abandon(); }
  void Drain() override { network_->Drain(); }

 private:
  RoutedTransport(const Group& group, TransportOptions options, Arena arena, std::unique_ptr<Transport> local,
                  std::unique_ptr<Transport> network, std::vector<int> place_here);
  MpiTransport& network() { return static_cast<MpiTransport&>(*network_); }
  // Keeps the failure of the one that has just failed.
  void FailWithEither();

  Arena arena_;
  std::unique_ptr<Transport> local_;    // of the members of this host
  std::unique_ptr<Transport> network_;  // of all; an MpiTransport
  std::vector<int> place_here_;         // of each member among those of this host, or -1
};

}  // namespace skein::comm
