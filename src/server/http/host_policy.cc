// SPDX-License-Identifier: Apache-2.0
#include "server/http/host_policy.h"

#include <algorithm>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "server/http/field_line.h"

namespace skein::server {
namespace {

bool IsV6(const std::string& text) {
  in6_addr address{};
  return inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

bool IsAddress(const std::string& text) {
  in_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1 || IsV6(text);
}

bool IsLoopback(const std::string& host) { return host == "localhost" || host == "127.0.0.1" || host == "::1"; }

bool IsHostCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

bool ReadPort(std::string_view text, int& port) {
  if (text.empty() || text.size() > 5) return false;
  port = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    port = port * 10 + (c - '0');
  }
  return port <= 65535;
}

}  // namespace

std::optional<HostAndPort> ReadHostAndPort(std::string_view text) {
  HostAndPort found;
  std::string_view rest;
  if (!text.empty() && text.front() == '[') {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    found.host = LowerCase(text.substr(1, end - 1));
    if (!IsV6(found.host)) return std::nullopt;
    rest = text.substr(end + 1);
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    found.host = LowerCase(text.substr(0, colon));
    if (found.host.empty() || !std::all_of(found.host.begin(), found.host.end(), IsHostCharacter)) return std::nullopt;
    rest = text.substr(colon);
  }
  if (!rest.empty() && (rest.front() != ':' || !ReadPort(rest.substr(1), found.port))) return std::nullopt;
  return found;
}

Status CheckNames(const std::vector<std::string>& hosts, const std::vector<std::string>& origins) {
  for (const std::string& host : hosts) {
    const auto read = ReadHostAndPort(host);
    if (IsV6(host) || (read && read->port < 0 && host.front() != '[')) continue;
    return InvalidArgument(fmt::format("--allowed-host takes a name alone, such as llm.example.org, found '{}'", host),
                           "allowed_host");
  }
  for (const std::string& origin : origins) {
    const std::size_t end = origin.find("://");
    if (end != std::string::npos && end > 0 && ReadHostAndPort(std::string_view(origin).substr(end + 3))) continue;
    return InvalidArgument(
        fmt::format("--allowed-origin takes a scheme and a name without a path, such as https://app.example.org, found '{}'",
                    origin),
        "allowed_origin");
  }
  return OkStatus();
}

HostPolicy::HostPolicy(Own own) : own_(std::move(own)) {
  for (std::string& name : own_.hosts) name = LowerCase(name);
  own_.address = LowerCase(own_.address);
  loopback_ = IsLoopback(own_.address) || own_.address.rfind("127.", 0) == 0;
}

bool HostPolicy::IsAllowedName(const std::string& host) const {
  return std::find(own_.hosts.begin(), own_.hosts.end(), host) != own_.hosts.end();
}

bool HostPolicy::AllowsHost(std::string_view host) const {
  const auto asked = ReadHostAndPort(host);
  if (!asked) return false;
  if (IsLoopback(asked->host) || asked->host == own_.address || IsAllowedName(asked->host)) return true;
  return !loopback_ && IsAddress(asked->host);
}

bool HostPolicy::AllowsOrigin(std::string_view origin, const std::string* host) const {
  for (const std::string& allowed : own_.origins) {
    if (EqualsIgnoringCase(allowed, origin)) return true;
  }
  const std::size_t end = origin.find("://");
  if (end == std::string_view::npos) return false;  // "null" among them
  const std::string scheme = LowerCase(origin.substr(0, end));
  if (scheme != "http" && scheme != "https") return false;
  const int usual_port = scheme == "https" ? 443 : 80;
  auto page = ReadHostAndPort(origin.substr(end + 3));
  if (!page) return false;
  if (page->port < 0) page->port = usual_port;
  const bool own_scheme = (scheme == "https") == own_.tls;
  if (own_scheme && page->port == own_.port && (IsLoopback(page->host) || page->host == own_.address)) return true;
  // The page came from where it now asks. A proxy in front may add TLS, which only a name of its own shows.
  if (host == nullptr || !AllowsHost(*host)) return false;
  const auto asked = ReadHostAndPort(*host);
  const int asked_port = asked->port < 0 ? usual_port : asked->port;
  return asked->host == page->host && asked_port == page->port && (own_scheme || IsAllowedName(page->host));
}

}  // namespace skein::server
