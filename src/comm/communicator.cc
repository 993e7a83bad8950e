// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.h"

#include <algorithm>

#include "base/check.h"
#include "comm/collectives/moving.h"
#include "kernels/rows/rows.h"

namespace skein::comm {

Communicator::Communicator(Group group, std::unique_ptr<Transport> transport, CommunicatorOptions options)
    : group_(std::move(group)), transport_(std::move(transport)), options_(options), kernels_(SelectWire(options.kernels)),
      table_(AlgorithmTable::Guess(group_)) {
  SKEIN_CHECK(transport_->size() == group_.size() && transport_->self() == group_.self);
  SKEIN_CHECK(group_.hosts.hosts() <= kHostsMax);
  const auto members = static_cast<std::size_t>(group_.size());
  memory_.contributions.resize(members);
  memory_.pieces.resize(members);
  for (int host = 0; host <= group_.hosts.hosts(); ++host) memory_.host_begin.push_back(host);
  const std::size_t smallest_unit = kUnitColumns + 4;
  memory_.sums.resize((transport_->slot_bytes() / smallest_unit + 1) * kUnitColumns);
  memory_.encoded.resize(transport_->slot_bytes() + kWireSlack);
}

Status Communicator::Alone(const Reduction& r) {
  const std::ptrdiff_t x_stride = r.x_stride == 0 ? r.columns : r.x_stride, out_stride = r.out_stride == 0 ? r.columns : r.out_stride;
  if (r.add) {
    kernels::SelectRows(options_.kernels).add(r.x, x_stride, r.rows, r.columns, r.out, out_stride);
  } else if (r.x != r.out) {
    for (int row = 0; row < r.rows; ++row) std::copy_n(r.x + row * x_stride, r.columns, r.out + row * out_stride);
  }
  if (r.done.take != nullptr && r.rows > 0) r.done.take(r.done.context, 0, r.rows);
  return OkStatus();
}

Status Communicator::AllReduce(const Reduction& reduction) {
  Algorithm algorithm = options_.algorithm;
  if (algorithm == Algorithm::kAuto) {
    algorithm = table_.For(static_cast<std::size_t>(reduction.rows) * static_cast<std::size_t>(reduction.columns) * sizeof(float));
  }
  return AllReduceBy(algorithm, reduction);
}

Status Communicator::AllReduceBy(Algorithm algorithm, const Reduction& reduction) {
  SKEIN_DCHECK(reduction.rows >= 0 && reduction.columns >= 1);
  if (size() == 1) return Alone(reduction);
  transport_->set_operation("all_reduce");
  Reducing reducing(*transport_, group_.hosts, kernels_, options_.wire, memory_, reduction);
  for (const AlgorithmInfo& info : Algorithms()) {
    if (info.algorithm == algorithm) return info.reduce(reducing);
  }
  SKEIN_CHECK(algorithm != Algorithm::kAuto);
  return OkStatus();
}

Status Communicator::AllGather(std::span<const std::byte> mine, std::span<const std::size_t> sizes, std::span<std::byte> out) {
  transport_->set_operation("all_gather");
  return comm::AllGather(*transport_, mine, sizes, out);
}

Status Communicator::Broadcast(int root, std::span<std::byte> bytes) {
  transport_->set_operation("broadcast");
  return comm::Broadcast(*transport_, root, bytes);
}

Status Communicator::Send(int to, std::span<const std::byte> bytes) {
  transport_->set_operation("send");
  return comm::Send(*transport_, to, bytes);
}

Status Communicator::Receive(int from, std::span<std::byte> bytes) {
  transport_->set_operation("receive");
  return comm::Receive(*transport_, from, bytes);
}

Status Communicator::Barrier() {
  transport_->set_operation("barrier");
  return comm::Barrier(*transport_);
}

}  // namespace skein::comm
