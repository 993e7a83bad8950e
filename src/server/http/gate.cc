// SPDX-License-Identifier: Apache-2.0
#include "server/http/gate.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/edit_distance.h"
#include "server/http/error_response.h"

namespace skein::server {
namespace {

constexpr std::size_t kShownPath = 100;  // bytes of a path in an answer
constexpr std::string_view kMethods[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"};

TurnedAway Hostile(int status, std::string_view message) {
  return {.response = ErrorResponse(status, message), .hostile = true};
}

// The key that a head presents: `Authorization: Bearer KEY`, or `x-api-key: KEY`. Empty: none, or none that is clear.
std::string_view PresentedKey(const RequestHead& head) {
  constexpr std::string_view kBearer = "Bearer ";
  std::size_t authorizations = 0, plain_keys = 0;
  const std::string* authorization = head.Find("authorization", &authorizations);
  const std::string* plain_key = head.Find("x-api-key", &plain_keys);
  if (authorizations > 1 || plain_keys > 1) return {};
  if (authorization != nullptr) {
    if (authorization->rfind(kBearer, 0) != 0) return {};
    return std::string_view(*authorization).substr(kBearer.size());
  }
  return plain_key == nullptr ? std::string_view() : std::string_view(*plain_key);
}

TurnedAway NoKey(bool presented) {
  TurnedAway away;
  away.response = ErrorResponse(
      401,
      presented ? "this API key is not known here" : "an API key is needed: send it as `Authorization: Bearer KEY`", "",
      "invalid_api_key");
  away.response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return away;
}

}  // namespace

std::variant<Admission, TurnedAway> Gate::Admit(const RequestHead& head, const std::string& path) const {
  if (std::find(std::begin(kMethods), std::end(kMethods), head.method) == std::end(kMethods)) {
    return Hostile(501, "the request's method is not known here");
  }
  std::size_t hosts = 0, origins = 0;
  const std::string* host = head.Find("host", &hosts);
  const std::string* origin = head.Find("origin", &origins);
  if (hosts > 1 || (hosts == 0 && head.minor > 0)) return Hostile(400, "Host must be given once");
  if (host != nullptr && !ReadHostAndPort(*host)) return Hostile(400, "Host must be a name or an address, and a port");
  if (host != nullptr && !hosts_.AllowsHost(*host)) {
    return Hostile(403, "this Host is not one of the server's; start it with --allowed-host to allow a name");
  }
  if (origins > 1) return Hostile(400, "Origin must be given at most once");
  if (origin != nullptr && !hosts_.AllowsOrigin(*origin, host)) {
    return Hostile(403, "pages of this Origin may not use the server; start it with --allowed-origin to allow one");
  }
  Router::Match match = router_.Find(head.method, path);
  Admission admission{.route = match.route, .rest = std::move(match.rest), .tenant = {}};
  const bool open = match.route != nullptr && match.route->scope == Scope::kOpen;
  const bool for_admins = match.route != nullptr && match.route->scope == Scope::kAdmin;
  if (!keys_.empty() && !open) {
    const std::string_view presented = PresentedKey(head);
    const ApiKeys::Key* key = keys_.Find(presented);
    if (key == nullptr) return NoKey(!presented.empty());
    if (for_admins && !key->admin) return TurnedAway{.response = ErrorResponse(403, "this route needs an admin's key")};
    admission.tenant = key->tenant;
  } else if (for_admins) {
    return TurnedAway{.response = ErrorResponse(403, "this route needs an admin's key, and the server has no keys")};
  }
  if (match.route != nullptr) return admission;
  if (match.allow.empty()) {
    std::string message = "there is no route " + path.substr(0, kShownPath);
    std::vector<std::string> known;
    for (const Route& route : router_.routes()) known.emplace_back(route.path);
    if (const std::string nearest = path.size() > kShownPath ? "" : NearestWord(path, known); !nearest.empty()) {
      message += "; did you mean " + nearest + "?";
    }
    return TurnedAway{.response = ErrorResponse(404, message, "", "not_found")};
  }
  TurnedAway away{.response =
                      ErrorResponse(405, "the route has other methods: " + match.allow, "", "method_not_allowed")};
  away.response.headers.push_back({"Allow", match.allow});
  return away;
}

}  // namespace skein::server
