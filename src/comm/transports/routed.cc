// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/routed.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "comm/collectives/moving.h"
#include "comm/transports/shared_memory.h"

namespace skein::comm {
namespace {

// Where the first member of a host keeps the memory: a descriptor of its process.
struct Place {
  int process = -1;
  int descriptor = -1;
};

// Everybody's value, by MPI alone.
template <typename T>
Result<std::vector<T>> Exchange(Transport& network, const T& mine) {
  std::vector<T> all(static_cast<std::size_t>(network.size()));
  const std::vector<std::size_t> sizes(all.size(), sizeof(T));
  SKEIN_RETURN_IF_ERROR(AllGather(network, std::as_bytes(std::span(&mine, 1)), sizes, std::as_writable_bytes(std::span(all))));
  return all;
}

Result<Arena> AttachTo(const Place& place) {
  const std::string path = fmt::format("/proc/{}/fd/{}", place.process, place.descriptor);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return MissingError("memory shared with the other ranks of this host is needed, it cannot be opened");
  Result<Arena> arena = Arena::Attach(descriptor);
  close(descriptor);
  return arena;
}

}  // namespace

Result<std::unique_ptr<Transport>> RoutedTransport::Create(const MpiJob& job, const Group& group, int tag, TransportOptions options,
                                                           std::size_t slot_bytes) {
  if (options.ranks.empty()) {
    for (const Rank rank : group.ranks) options.ranks.push_back(rank.value);
  }
  std::unique_ptr<Transport> network = MpiTransport::Create(job, group, tag, options, slot_bytes);
  network->set_operation("joining the group");
  const std::span<const int> here = group.hosts.MembersOf(group.hosts.HostOf(group.self));
  std::optional<Arena> arena;
  Place mine;
  if (here[0] == group.self) {
    Result<Arena> created = Arena::Shared(static_cast<int>(here.size()), slot_bytes);
    if (created.ok()) {
      arena.emplace(std::move(created).value());
      mine = {static_cast<int>(getpid()), arena->descriptor()};
    }
  }
  SKEIN_ASSIGN_OR_RETURN(const std::vector<Place> places, Exchange(*network, mine));
  if (here[0] != group.self) {
    Result<Arena> attached = AttachTo(places[static_cast<std::size_t>(here[0])]);
    if (attached.ok() && attached->members() == static_cast<int>(here.size())) arena.emplace(std::move(attached).value());
  }
  SKEIN_ASSIGN_OR_RETURN(const std::vector<char> have, Exchange(*network, static_cast<char>(arena.has_value() ? 1 : 0)));
  if (std::find(have.begin(), have.end(), 0) != have.end()) return network;

  std::vector<int> place_here(static_cast<std::size_t>(group.size()), -1);
  TransportOptions local_options = options;
  local_options.ranks.clear();
  for (std::size_t i = 0; i < here.size(); ++i) {
    place_here[static_cast<std::size_t>(here[i])] = static_cast<int>(i);
    local_options.ranks.push_back(options.ranks[static_cast<std::size_t>(here[i])]);
  }
  // The local end refers to the arena where it will stay.
  auto routed = std::unique_ptr<RoutedTransport>(
      new RoutedTransport(group, std::move(options), std::move(*arena), nullptr, std::move(network), std::move(place_here)));
  SKEIN_ASSIGN_OR_RETURN(routed->local_, SharedMemoryTransport::Create(routed->arena_, routed->place_here_[static_cast<std::size_t>(group.self)], local_options));
  return std::unique_ptr<Transport>(std::move(routed));
}

RoutedTransport::RoutedTransport(const Group& group, TransportOptions options, Arena arena, std::unique_ptr<Transport> local,
                                 std::unique_ptr<Transport> network, std::vector<int> place_here)
    : Transport("mpi", group.self, group.size(), arena.slot_bytes(), std::move(options)), arena_(std::move(arena)), local_(std::move(local)),
      network_(std::move(network)), place_here_(std::move(place_here)) {}

void RoutedTransport::set_operation(const char* operation) {
  Transport::set_operation(operation);
  local_->set_operation(operation);
  network_->set_operation(operation);
}

void RoutedTransport::set_beside(bool beside) {
  Transport::set_beside(beside);
  local_->set_beside(beside);
  network_->set_beside(beside);
}

void RoutedTransport::set_timeout(std::chrono::nanoseconds timeout) {
  Transport::set_timeout(timeout);
  local_->set_timeout(timeout);
  network_->set_timeout(timeout);
}

TransportCounts RoutedTransport::counts() const {
  const TransportCounts local = local_->counts(), network = network_->counts();
  return {local.bytes_posted + network.bytes_posted, local.waited_ns + network.waited_ns};
}

void RoutedTransport::FailWithEither() { FailWith(local_->status().ok() ? network_->status() : local_->status()); }

std::byte* RoutedTransport::Open() {
  std::byte* slot = failed() ? nullptr : local_->Open();
  if (slot != nullptr && network().WaitUntilSent(slot)) return slot;
  FailWithEither();
  return nullptr;
}

bool RoutedTransport::Post(int peer, const std::byte* slot, std::size_t begin, std::size_t end) {
  if (failed()) return false;
  const int place = place_here_[static_cast<std::size_t>(peer)];
  if (place >= 0 ? local_->Post(place, slot, begin, end) : network_->Post(peer, slot, begin, end)) return true;
  FailWithEither();
  return false;
}

const std::byte* RoutedTransport::Await(int peer, std::size_t bytes) {
  if (failed()) return nullptr;
  const int place = place_here_[static_cast<std::size_t>(peer)];
  const std::byte* in = place >= 0 ? local_->Await(place, bytes) : network_->Await(peer, bytes);
  if (in == nullptr) FailWithEither();
  return in;
}

void RoutedTransport::Release(int peer, Acknowledge when) {
  const int place = place_here_[static_cast<std::size_t>(peer)];
  if (place >= 0) local_->Release(place, when);
}

}  // namespace skein::comm
