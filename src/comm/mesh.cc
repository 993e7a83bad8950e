// SPDX-License-Identifier: Apache-2.0
#include "comm/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.h"

namespace skein::comm {
namespace {

constexpr Axis kFromFastest[kAxes] = {Axis::kTensor, Axis::kSeq, Axis::kPipe, Axis::kData};

}  // namespace

std::string_view NameOf(Axis axis) {
  switch (axis) {
    case Axis::kData: return "data";
    case Axis::kPipe: return "pipe";
    case Axis::kSeq: return "seq";
    case Axis::kTensor: return "tensor";
  }
  return "";
}

int& Places::operator[](Axis axis) {
  switch (axis) {
    case Axis::kData: return data;
    case Axis::kPipe: return pipe;
    case Axis::kSeq: return seq;
    case Axis::kTensor: break;
  }
  return tensor;
}

int Places::operator[](Axis axis) const { return const_cast<Places&>(*this)[axis]; }

HostMap HostMap::Of(std::span<const int> hosts) {
  HostMap map;
  std::vector<int> seen;
  for (const int host : hosts) {
    if (std::find(seen.begin(), seen.end(), host) == seen.end()) seen.push_back(host);
  }
  for (const int host : seen) {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (hosts[i] == host) map.members.push_back(static_cast<int>(i));
    }
    map.begin.push_back(static_cast<int>(map.members.size()));
  }
  return map;
}

int HostMap::HostOf(int member) const {
  const auto place = std::find(members.begin(), members.end(), member) - members.begin();
  return static_cast<int>(std::upper_bound(begin.begin(), begin.end(), static_cast<int>(place)) - begin.begin()) - 1;
}

Group Group::OnOneHost(int size, int self) {
  Group group;
  for (int i = 0; i < size; ++i) group.ranks.push_back({i});
  group.self = self;
  group.hosts = HostMap::Of(std::vector<int>(static_cast<std::size_t>(size), 0));
  return group;
}

Result<Mesh> Mesh::Create(Places shape, std::vector<int> hosts) {
  std::int64_t ranks = 1;
  for (const Axis axis : kFromFastest) {
    if (shape[axis] < 1) {
      return InvalidArgument(fmt::format("--{} wants a number from 1, found {}", NameOf(axis), shape[axis]),
                             fmt::format("--{}", NameOf(axis)));
    }
    ranks *= shape[axis];
    if (ranks > kRanksMax) {
      return LimitExceeded(fmt::format("a mesh has at most {} ranks, found {} × {} × {} × {} (data, pipe, seq, tensor)", kRanksMax,
                                       shape.data, shape.pipe, shape.seq, shape.tensor));
    }
  }
  const std::size_t host_count = std::set<int>(hosts.begin(), hosts.end()).size();
  if (host_count > static_cast<std::size_t>(kHostsMax)) {
    return LimitExceeded(fmt::format("a mesh has at most {} hosts, found {}", kHostsMax, host_count));
  }
  if (hosts.empty()) hosts.assign(static_cast<std::size_t>(ranks), 0);
  if (static_cast<std::int64_t>(hosts.size()) != ranks) {
    return InvalidArgument(fmt::format("each of {} ranks needs a host, found {}", ranks, hosts.size()));
  }
  return Mesh(shape, std::move(hosts));
}

Rank Mesh::RankAt(const Places& places) const {
  int rank = 0;
  for (int i = kAxes - 1; i >= 0; --i) {
    const Axis axis = kFromFastest[i];
    SKEIN_CHECK(places[axis] >= 0 && places[axis] < shape_[axis]);
    rank = rank * shape_[axis] + places[axis];
  }
  return {rank};
}

Places Mesh::PlacesOf(Rank rank) const {
  SKEIN_CHECK(rank.value >= 0 && rank.value < ranks());
  Places places;
  int rest = rank.value;
  for (const Axis axis : kFromFastest) {
    places[axis] = rest % shape_[axis];
    rest /= shape_[axis];
  }
  return places;
}

Group Mesh::GroupFrom(std::vector<Rank> ranks, Rank self) const {
  Group group;
  std::vector<int> hosts;
  for (const Rank rank : ranks) hosts.push_back(HostOf(rank));
  group.self = static_cast<int>(std::find(ranks.begin(), ranks.end(), self) - ranks.begin());
  group.ranks = std::move(ranks);
  group.hosts = HostMap::Of(hosts);
  return group;
}

Group Mesh::GroupOf(Axis axis, Rank rank) const {
  Places places = PlacesOf(rank);
  std::vector<Rank> members;
  for (int i = 0; i < shape_[axis]; ++i) {
    places[axis] = i;
    members.push_back(RankAt(places));
  }
  return GroupFrom(std::move(members), rank);
}

Group Mesh::Everyone(Rank rank) const {
  std::vector<Rank> members;
  for (int i = 0; i < ranks(); ++i) members.push_back({i});
  return GroupFrom(std::move(members), rank);
}

std::vector<Group> Mesh::TalkingGroups() const {
  std::vector<Group> groups;
  if (ranks() > 1) groups.push_back(Everyone({0}));
  for (const Axis axis : {Axis::kPipe, Axis::kSeq, Axis::kTensor}) {
    if (shape_[axis] == 1) continue;
    for (int rank = 0; rank < ranks(); ++rank) {
      Group group = GroupOf(axis, {rank});
      if (group.self == 0) groups.push_back(std::move(group));
    }
  }
  return groups;
}

bool Mesh::Neighbour(Axis axis, Rank rank, int distance, Rank& neighbour) const {
  Places places = PlacesOf(rank);
  places[axis] += distance;
  if (places[axis] < 0 || places[axis] >= shape_[axis]) return false;
  neighbour = RankAt(places);
  return true;
}

std::vector<int> SpreadOverHosts(int ranks, int hosts) {
  SKEIN_CHECK(ranks >= 0 && hosts >= 1);
  std::vector<int> host_of;
  for (int host = 0; host < hosts; ++host) {
    const int count = ranks / hosts + (host < ranks % hosts ? 1 : 0);
    host_of.insert(host_of.end(), static_cast<std::size_t>(count), host);
  }
  return host_of;
}

}  // namespace skein::comm
