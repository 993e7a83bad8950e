// SPDX-License-Identifier: Apache-2.0
//
// Where ranks that inherit no socket find their supervisor: a name that fits an environment variable, and what listens under it. Ranks of
// this host come to a socket in the abstract namespace of Unix-domain sockets ("skein-0f3a…"), those of other hosts to an address
// ("tcp:10.0.0.1:40123", "tcp:[fd00::1]:40123"). What a connection to an address carries can be read and changed on the way.
//
// Thread rule: values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"

namespace skein::supervisor {

inline constexpr std::string_view kTcpEndpoint = "tcp:";  // what names of addresses begin with

struct Endpoint {
  Descriptor listener;  // does not block
  std::string name;
};

// In the abstract namespace, under a random name.
Result<Endpoint> ListenOnThisHost();
// `address` is "ADDR", "ADDR:PORT" or "[ADDR6]:PORT"; without a port one is chosen. Errors: kInvalidArgument for what is no address of this
// host, kUnavailable when the port is taken.
Result<Endpoint> ListenAt(const std::string& address);
// This host's address on the way to the first of `hosts` to which it is not the loopback; the loopback when there is none. Errors:
// kInvalidArgument naming a host that is not known here.
Result<std::string> AddressTowards(const std::vector<std::string>& hosts);
// Errors: kInvalidArgument for what is no name of an endpoint, kUnavailable.
Result<Descriptor> ConnectTo(const std::string& name);

// 32 hexadecimal digits that nobody can guess. Errors: kMissing.
Result<std::string> RandomName();
// Takes the same time wherever the two differ.
bool SameSecret(const std::string& a, const std::string& b);

}  // namespace skein::supervisor
