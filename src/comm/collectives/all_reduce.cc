// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/all_reduce.h"

namespace skein::comm {
namespace {

constexpr AlgorithmInfo kAlgorithms[] = {
    {Algorithm::kOneShot, "one_shot", true, ReduceOneShot},
    {Algorithm::kReduceScatter, "reduce_scatter", true, ReduceByScatter},
    {Algorithm::kHierarchical, "hierarchical", true, ReduceHierarchical},
    {Algorithm::kRing, "ring", false, ReduceRing},
    {Algorithm::kHalvingDoubling, "halving_doubling", false, ReduceHalvingDoubling},
    {Algorithm::kDoubleTree, "double_tree", false, ReduceDoubleTree},
};

}  // namespace

std::span<const AlgorithmInfo> Algorithms() { return kAlgorithms; }

std::string_view NameOf(Algorithm algorithm) {
  for (const AlgorithmInfo& info : kAlgorithms) {
    if (info.algorithm == algorithm) return info.name;
  }
  return "auto";
}

std::optional<Algorithm> AlgorithmFromName(std::string_view name) {
  if (name == "auto") return Algorithm::kAuto;
  for (const AlgorithmInfo& info : kAlgorithms) {
    if (info.name == name) return info.algorithm;
  }
  return std::nullopt;
}

}  // namespace skein::comm
