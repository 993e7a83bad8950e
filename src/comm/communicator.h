// SPDX-License-Identifier: Apache-2.0
//
// Communicator is how a rank talks to its group: the collectives, with the group's host map, wire types and choice of algorithm. What the
// layers of a model use.
//
//   Communicator tensor(mesh.GroupOf(Axis::kTensor, rank), std::move(transport), options);
//   SKEIN_RETURN_IF_ERROR(tensor.AllReduce({.x = partial, .out = residual, .rows = rows, .columns = hidden, .add = true}));
//
// All members call the same operations in the same order with the same sizes and options. An error (kUnavailable; it names the rank and the
// operation) leaves the communicator useless: every further call returns it.
//
// Thread rule: one thread at a time. A rank of several threads that wants to reduce with all of them has one communicator per
// thread, each for its own rows. No call but Tune allocates.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "comm/collectives/all_reduce.h"
#include "comm/mesh.h"
#include "comm/transport.h"
#include "comm/wire/wire.h"
#include "kernels/arithmetic.h"

namespace skein::comm {

struct CommunicatorOptions {
  WireTypes wire = {};
  Algorithm algorithm = Algorithm::kAuto;
  kernels::KernelPath kernels = kernels::KernelPath::kRef;
};

// Which exact algorithm is taken for messages of up to so many fp32 bytes. All members have the same.
struct AlgorithmTable {
  struct Row {
    std::size_t bytes;
    Algorithm algorithm;
    double microseconds;  // measured by member 0; 0: not measured
  };
  std::array<Row, 5> rows;
  Algorithm For(std::size_t bytes) const;
  // Before anything is measured: few bytes or members in one hop.
  static AlgorithmTable Guess(const Group& group);
};

class Communicator {
 public:
  // Requires: the transport's members are the group's, in order; at most kHostsMax hosts.
  Communicator(Group group, std::unique_ptr<Transport> transport, CommunicatorOptions options);

  const Group& group() const { return group_; }
  int self() const { return group_.self; }
  int size() const { return group_.size(); }
  const CommunicatorOptions& options() const { return options_; }
  Transport& transport() { return *transport_; }
  const AlgorithmTable& table() const { return table_; }

  // out = the group's sum of x, or out += it: docs/numerics.md says which sum. A group of one adds or copies x as it is.
  Status AllReduce(const Reduction& reduction);
  // The same with an algorithm chosen by the caller.
  Status AllReduceBy(Algorithm algorithm, const Reduction& reduction);
  Status AllGather(std::span<const std::byte> mine, std::span<const std::size_t> sizes, std::span<std::byte> out);
  Status Broadcast(int root, std::span<std::byte> bytes);
  Status Send(int to, std::span<const std::byte> bytes);
  Status Receive(int from, std::span<std::byte> bytes);
  Status Barrier();

  // Measures the exact algorithms for at most about `budget` and fills the table; member 0's measurement counts for all. Changes no bit.
  Status Tune(std::chrono::nanoseconds budget = std::chrono::milliseconds(40));

 private:
  Status Alone(const Reduction& reduction);
  Result<double> MicrosecondsOf(Algorithm algorithm, const Reduction& reduction, int repeats);

  Group group_;
  std::unique_ptr<Transport> transport_;
  CommunicatorOptions options_;
  const WireKernels& kernels_;
  Reducing::Memory memory_;
  AlgorithmTable table_;
};

}  // namespace skein::comm
