// SPDX-License-Identifier: Apache-2.0
#include "server/http/router.h"

namespace skein::server {
namespace {

constexpr std::string_view kRest = "{id}";

bool Matches(std::string_view pattern, std::string_view path, std::string& rest) {
  if (!pattern.ends_with(kRest)) return pattern == path;
  pattern.remove_suffix(kRest.size());
  if (path.size() <= pattern.size() || !path.starts_with(pattern)) return false;
  rest = path.substr(pattern.size());
  return true;
}

}  // namespace

Router::Match Router::Find(std::string_view method, std::string_view path) const {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  Match match;
  for (const Route& route : routes_) {
    std::string rest;
    if (!Matches(route.path, path, rest)) continue;
    if (route.method == wanted) {
      match.route = &route;
      match.rest = rest;
      return match;
    }
    if (!match.allow.empty()) match.allow += ", ";
    match.allow += route.method == "GET" ? "GET, HEAD" : route.method;
  }
  return match;
}

}  // namespace skein::server
