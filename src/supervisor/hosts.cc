// SPDX-License-Identifier: Apache-2.0
#include "supervisor/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace skein::supervisor {
namespace {

constexpr std::size_t kNameMax = 253;  // of DNS

// Names become arguments of other programs: nothing else than a name may stand there.
bool IsHostName(std::string_view name) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_'; };
  return !name.empty() && name.size() <= kNameMax && name.front() != '-' && std::all_of(name.begin(), name.end(), fits);
}

Result<HostShare> ParseOne(std::string_view word) {
  const std::size_t colon = word.find(':');
  HostShare host{std::string(word.substr(0, colon)), 0};
  if (!IsHostName(host.name)) return InvalidArgument(fmt::format("hosts are names or addresses with commas between, found '{}'", word), "hosts");
  if (colon == std::string_view::npos) return host;
  const std::string_view number = word.substr(colon + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), host.ranks);
  if (error != std::errc() || end != number.data() + number.size() || host.ranks < 1 || host.ranks > comm::kRanksMax) {
    return InvalidArgument(fmt::format("a host's number of ranks is 1 to {}, found '{}'", comm::kRanksMax, word), "hosts");
  }
  return host;
}

void Spread(std::vector<HostShare>& hosts, const comm::Places& mesh, int ranks) {
  const int count = static_cast<int>(hosts.size());
  const int stages = ranks / mesh.tensor;
  const int unit = stages >= count ? mesh.tensor : 1;
  for (const int host : comm::SpreadOverHosts(ranks / unit, count)) hosts[static_cast<std::size_t>(host)].ranks += unit;
}

}  // namespace

Result<std::vector<HostShare>> ParseHosts(std::string_view text, const comm::Places& mesh) {
  std::vector<HostShare> hosts;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    SKEIN_ASSIGN_OR_RETURN(HostShare host, ParseOne(rest.substr(0, comma)));
    const auto same = [&](const HostShare& other) { return other.name == host.name; };
    if (std::any_of(hosts.begin(), hosts.end(), same)) return InvalidArgument(fmt::format("host {} is named twice", host.name), "hosts");
    hosts.push_back(std::move(host));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  const int ranks = mesh.product();
  const auto counted = std::count_if(hosts.begin(), hosts.end(), [](const HostShare& host) { return host.ranks > 0; });
  if (hosts.size() > static_cast<std::size_t>(std::min(ranks, comm::kHostsMax))) {
    return InvalidArgument(fmt::format("{} hosts for {} ranks; raise --tensor or --pipe, or name fewer", hosts.size(), ranks), "hosts");
  }
  if (counted == 0) Spread(hosts, mesh, ranks);
  int sum = 0;
  for (const HostShare& host : hosts) sum += host.ranks;
  if (counted != 0 && (static_cast<std::size_t>(counted) != hosts.size() || sum != ranks)) {
    return InvalidArgument(fmt::format("hosts have {} ranks, --tensor {} --pipe {} makes {}; give every host its number, or none", sum, mesh.tensor,
                                       mesh.pipe, ranks),
                           "hosts");
  }
  return hosts;
}

std::string LastOfNodeList(std::string_view list) {
  const bool in_brackets = list.ends_with(']');
  const std::size_t open = in_brackets ? list.rfind('[') : std::string_view::npos;
  if (in_brackets && open == std::string_view::npos) return {};
  const std::string_view before = list.substr(0, in_brackets ? open : list.size());
  std::string name(before.substr(before.rfind(',') + 1));  // npos + 1: all of it
  if (in_brackets) {
    const std::string_view inside = list.substr(open + 1, list.size() - open - 2);
    name += inside.substr(inside.find_last_of(",-") + 1);
  }
  return IsHostName(name) ? name : "";
}

std::vector<int> HostOfRanks(const std::vector<HostShare>& hosts) {
  std::vector<int> of_ranks;
  for (std::size_t host = 0; host < hosts.size(); ++host) of_ranks.insert(of_ranks.end(), static_cast<std::size_t>(hosts[host].ranks), static_cast<int>(host));
  return of_ranks;
}

}  // namespace skein::supervisor
