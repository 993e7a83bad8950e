// SPDX-License-Identifier: Apache-2.0
//
// If a rank computes another place than its peers do, they sum shards of different tensors and nothing tells.
#include "comm/mesh.h"

#include <gtest/gtest.h>

#include <set>

namespace skein::comm {
namespace {

Mesh MeshOf(Places shape, std::vector<int> hosts = {}) {
  Result<Mesh> mesh = Mesh::Create(shape, std::move(hosts));
  EXPECT_TRUE(mesh.ok()) << mesh.status().message();
  return std::move(mesh).value();
}

TEST(Mesh, RanksAndPlacesAreOneToOne) {
  const Mesh mesh = MeshOf({.data = 2, .pipe = 3, .seq = 2, .tensor = 5});
  ASSERT_EQ(mesh.ranks(), 60);
  std::set<int> seen;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const Places places = mesh.PlacesOf({rank});
    EXPECT_EQ(mesh.RankAt(places).value, rank);
    seen.insert(mesh.RankAt(places).value);
  }
  EXPECT_EQ(seen.size(), 60U);
  EXPECT_EQ(mesh.RankAt({.data = 0, .pipe = 0, .seq = 0, .tensor = 1}).value, 1) << "tensor ranks are neighbours";
}

TEST(Mesh, GroupsOfAnAxisPartTheRanks) {
  const Mesh mesh = MeshOf({.data = 2, .pipe = 2, .seq = 1, .tensor = 3});
  for (const Axis axis : {Axis::kData, Axis::kPipe, Axis::kSeq, Axis::kTensor}) {
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const Group group = mesh.GroupOf(axis, {rank});
      ASSERT_EQ(group.size(), mesh.shape()[axis]);
      EXPECT_EQ(group.ranks[static_cast<std::size_t>(group.self)].value, rank);
      for (const Rank other : group.ranks) EXPECT_EQ(mesh.GroupOf(axis, other).ranks, group.ranks) << NameOf(axis);
    }
  }
  EXPECT_EQ(mesh.Everyone({5}).size(), 12);
  EXPECT_EQ(mesh.Everyone({5}).self, 5);
}

TEST(Mesh, NeighboursEndAtTheEnds) {
  const Mesh mesh = MeshOf({.data = 1, .pipe = 3, .seq = 1, .tensor = 2});
  Rank next;
  ASSERT_TRUE(mesh.Neighbour(Axis::kPipe, {1}, 1, next));
  EXPECT_EQ(next.value, 3);
  EXPECT_FALSE(mesh.Neighbour(Axis::kPipe, {1}, -1, next));
  EXPECT_FALSE(mesh.Neighbour(Axis::kPipe, {5}, 1, next));
}

TEST(Mesh, HostsFollowTheRanks) {
  EXPECT_EQ(SpreadOverHosts(5, 2), (std::vector<int>{0, 0, 0, 1, 1}));
  EXPECT_EQ(SpreadOverHosts(2, 3), (std::vector<int>{0, 1}));
  const Mesh mesh = MeshOf({.data = 1, .pipe = 1, .seq = 1, .tensor = 5}, {7, 3, 7, 3, 9});
  const Group group = mesh.GroupOf(Axis::kTensor, {2});
  EXPECT_EQ(group.hosts.members, (std::vector<int>{0, 2, 1, 3, 4}));
  EXPECT_EQ(group.hosts.begin, (std::vector<int>{0, 2, 4, 5}));
  EXPECT_EQ(group.hosts.HostOf(3), 1);
  EXPECT_EQ(group.hosts.HostOf(4), 2);
  EXPECT_EQ(group.hosts.HostOf(0), 0);
}

TEST(Mesh, ImpossibleShapesAreErrors) {
  EXPECT_EQ(Mesh::Create({.data = 1, .pipe = 0, .seq = 1, .tensor = 1}).status().field(), "--pipe");
  EXPECT_EQ(Mesh::Create({.data = 64, .pipe = 64, .seq = 1, .tensor = 1}).status().code(), Code::kLimit);
  EXPECT_EQ(Mesh::Create({.data = 1 << 30, .pipe = 1 << 30, .seq = 1 << 30, .tensor = 1 << 30}).status().code(), Code::kLimit);
  EXPECT_EQ(Mesh::Create({.data = 1, .pipe = 1, .seq = 1, .tensor = 65}, SpreadOverHosts(65, 65)).status().code(), Code::kLimit);
  EXPECT_EQ(Mesh::Create({.data = 1, .pipe = 1, .seq = 1, .tensor = 2}, {0}).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace skein::comm
