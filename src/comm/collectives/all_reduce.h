// SPDX-License-Identifier: Apache-2.0
//
// The algorithms of all-reduce. Those that are *exact* are routes of the one sum that docs/numerics.md defines and give the same
// bits; the others add in an order of their own and round partial sums at each hop.
//
//   one_shot          everybody posts all of it to everybody: one hop
//   reduce_scatter    everybody sums one share, then shares are gathered: two hops, less to read
//   hierarchical      a host's first member sums for its host, those exchange, and hand back: three hops, one message between hosts
//   ring              2 (members - 1) hops of one share each (Patarasuk and Yuan 2009)
//   halving_doubling  2 log2(members) hops of halves (Thakur, Rabenseifner and Gropp 2005)
//   double_tree       each half of the message up and down a binary tree of its own; who is inside one is a leaf of the other (Sanders,
//                     Speck and Träff 2009)
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "comm/collectives/reduction.h"

namespace skein::comm {

enum class Algorithm : std::uint8_t { kAuto, kOneShot, kReduceScatter, kHierarchical, kRing, kHalvingDoubling, kDoubleTree };

struct AlgorithmInfo {
  Algorithm algorithm;
  std::string_view name;
  bool exact;
  Status (*reduce)(Reducing& reducing);
};

// All but kAuto.
std::span<const AlgorithmInfo> Algorithms();
std::string_view NameOf(Algorithm algorithm);
std::optional<Algorithm> AlgorithmFromName(std::string_view name);

Status ReduceOneShot(Reducing& reducing);
Status ReduceByScatter(Reducing& reducing);
Status ReduceHierarchical(Reducing& reducing);
Status ReduceRing(Reducing& reducing);
Status ReduceHalvingDoubling(Reducing& reducing);
Status ReduceDoubleTree(Reducing& reducing);

}  // namespace skein::comm
