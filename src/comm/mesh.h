// SPDX-License-Identifier: Apache-2.0
//
// Mesh: how the ranks of one job are laid out on the axes data (replicas), pipe (consecutive layers), seq (context) and tensor (heads and
// columns), and on which host each one is. A Group is the ranks that differ on one axis only: those who talk to each other. Pure values; nothing
// here communicates.
//
// Ranks are numbered with tensor fastest, then seq, pipe, data: the groups that talk most are neighbours and share a host.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace skein::comm {

using Rank = Id<struct RankTag, int>;  // 0 … ranks of the mesh - 1

enum class Axis : std::uint8_t { kData, kPipe, kSeq, kTensor };
constexpr int kAxes = 4;
std::string_view NameOf(Axis axis);

constexpr int kRanksMax = 1024;
constexpr int kHostsMax = 64;

// A number per axis: how many places a mesh has, or where a rank is.
struct Places {
  int data = 0, pipe = 0, seq = 0, tensor = 0;

  int& operator[](Axis axis);
  int operator[](Axis axis) const;
  // Of a mesh: its ranks.
  int product() const { return data * pipe * seq * tensor; }
  friend bool operator==(const Places&, const Places&) = default;
};

// Which members of a group share a host: what the order of sums follows (docs/numerics.md).
struct HostMap {
  // Members host by host, hosts in order of their first member, members of a host in order of rank.
  std::vector<int> members;
  // Host h has members[begin[h]] … members[begin[h + 1] - 1].
  std::vector<int> begin{0};

  // `hosts[i]` names the host of member i by any number.
  static HostMap Of(std::span<const int> hosts);
  int hosts() const { return static_cast<int>(begin.size()) - 1; }
  int SizeOf(int host) const { return begin[static_cast<std::size_t>(host) + 1] - begin[static_cast<std::size_t>(host)]; }
  // The members of one host.
  std::span<const int> MembersOf(int host) const {
    return std::span(members).subspan(static_cast<std::size_t>(begin[static_cast<std::size_t>(host)]),
                                      static_cast<std::size_t>(SizeOf(host)));
  }
  int HostOf(int member) const;
};

// One rank's view of the ranks it talks to. A *member* is a place in `ranks`, ascending.
struct Group {
  std::vector<Rank> ranks;
  int self = 0;  // the member that this rank is
  HostMap hosts;

  int size() const { return static_cast<int>(ranks.size()); }
  // A group of ranks 0 … size - 1, all on one host.
  static Group OnOneHost(int size, int self);
};

class Mesh {
 public:
  // `hosts[r]` is the host of rank r; empty: all on one. Errors: kInvalidArgument for an axis below 1, hosts that are not one
  // per rank; kLimit beyond kRanksMax ranks or kHostsMax hosts.
  static Result<Mesh> Create(Places shape, std::vector<int> hosts = {});

  int ranks() const { return static_cast<int>(hosts_.size()); }
  const Places& shape() const { return shape_; }
  // Requires: places within the shape; a rank of this mesh.
  Rank RankAt(const Places& places) const;
  Places PlacesOf(Rank rank) const;
  int HostOf(Rank rank) const { return hosts_[static_cast<std::size_t>(rank.value)]; }
  // The ranks that differ from `rank` on `axis` only, and it.
  Group GroupOf(Axis axis, Rank rank) const;
  // All ranks.
  Group Everyone(Rank rank) const;
  // Every group of two members and more whose members talk to each other: all ranks first, then those of each axis that ranks of one
  // model share (pipe, seq, tensor), by their first rank. `self` is the first member.
  std::vector<Group> TalkingGroups() const;
  // The next rank on `axis`, `distance` away without going round; false when there is none.
  bool Neighbour(Axis axis, Rank rank, int distance, Rank& neighbour) const;

 private:
  Mesh(Places shape, std::vector<int> hosts) : shape_(shape), hosts_(std::move(hosts)) {}
  Group GroupFrom(std::vector<Rank> ranks, Rank self) const;

  Places shape_;
  std::vector<int> hosts_;
};

// Ranks spread over `hosts` in order, as evenly as can be: {0, 0, 0, 1, 1} for 5 on 2.
std::vector<int> SpreadOverHosts(int ranks, int hosts);

}  // namespace skein::comm
