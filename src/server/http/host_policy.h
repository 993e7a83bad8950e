// SPDX-License-Identifier: Apache-2.0
//
// HostPolicy keeps web pages away from a server that listens on the reader's own machine. A page from elsewhere can
// send requests here, and by a name that its owner points at 127.0.0.1 (DNS rebinding) even read the answers; what it
// cannot do is hide its name from Host and Origin.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace skein::server {

// "example.test:8000" taken apart; the name in lower case, an IPv6 address without its brackets. -1: no port.
struct HostAndPort {
  std::string host;
  int port = -1;
};
std::optional<HostAndPort> ReadHostAndPort(std::string_view text);

// Refuses allowed names and origins that no request could match. Errors: kInvalidArgument with the flag.
Status CheckNames(const std::vector<std::string>& hosts, const std::vector<std::string>& origins);

class HostPolicy {
 public:
  struct Own {
    bool tls = false;
    std::string address;  // that we are bound to, without brackets
    int port = 0;
    std::vector<std::string> hosts = {};    // allowed names beside the own ones, without ports
    std::vector<std::string> origins = {};  // allowed origins beside the own ones
  };
  explicit HostPolicy(Own own);

  // The Host header: localhost, 127.0.0.1, [::1], the bound address or an allowed name, with any port. A server that
  // is bound to more than loopback also answers to any IP address, which no foreign page has as its name.
  bool AllowsHost(std::string_view host) const;

  // The Origin header of a request that came to this Host (null without one): the server's own, or an allowed one.
  bool AllowsOrigin(std::string_view origin, const std::string* host) const;

 private:
  bool IsAllowedName(const std::string& host) const;

  Own own_;
  bool loopback_;
};

}  // namespace skein::server
