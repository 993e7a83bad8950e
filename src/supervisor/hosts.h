// SPDX-License-Identifier: Apache-2.0
//
// Which ranks run on which hosts. Ranks are numbered host by host; a stage's tensor ranks share a host where there are as many stages as
// hosts. Pure values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "comm/mesh.h"

namespace skein::supervisor {

struct HostShare {
  std::string name;
  int ranks = 0;
  friend bool operator==(const HostShare&, const HostShare&) = default;
};

// "a,b" or "a:2,b:1": all with their number of ranks, or none, and then they are spread as evenly as can be. Errors: kInvalidArgument for a
// word that is no host's name, a host named twice, more hosts than ranks, numbers that are not the mesh's.
Result<std::vector<HostShare>> ParseHosts(std::string_view text, const comm::Places& mesh);
// The last host of a list as Slurm writes it, "n[01-04,7],m2"; empty where it cannot be read.
std::string LastOfNodeList(std::string_view list);
// The host of each rank, by number.
std::vector<int> HostOfRanks(const std::vector<HostShare>& hosts);

}  // namespace skein::supervisor
