// SPDX-License-Identifier: Apache-2.0
#include "supervisor/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace skein::supervisor {
namespace {

constexpr int kBacklog = 128;
constexpr const char* kAnyPort = "9";  // of a datagram socket that sends nothing

Status NoSocket() {
  return MissingError(fmt::format("no socket can be had: {}; raise the limit of open files (ulimit -n)", std::strerror(errno)));
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> AddressesOf(const std::string& host, const std::string& port, int kind, const char* field) {
  addrinfo wanted{};
  wanted.ai_socktype = kind;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found);
  if (error != 0 || found == nullptr) {
    return InvalidArgument(fmt::format("'{}' is no host that is known here: {}", host, ::gai_strerror(error)), field);
  }
  return Addresses(found);
}

struct HostAndPort {
  std::string host, port = "0";
};

HostAndPort Split(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    HostAndPort both{std::string(text.substr(1, end == std::string_view::npos ? end : end - 1)), "0"};
    if (end != std::string_view::npos && end + 1 < text.size() && text[end + 1] == ':') both.port = text.substr(end + 2);
    return both;
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || text.find(':', colon + 1) != std::string_view::npos) return {std::string(text), "0"};  // or an IPv6 address
  return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

union SocketAddress {
  sockaddr any;
  sockaddr_in four;
  sockaddr_in6 six;
};

std::string Shown(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.any.sa_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &address.six.sin6_addr, text, sizeof text);
  } else {
    ::inet_ntop(AF_INET, &address.four.sin_addr, text, sizeof text);
  }
  return text;
}

// Events and beats are small and wanted at once.
void SendAtOnce(int socket) {
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

bool AbstractAddress(const std::string& name, sockaddr_un& address, socklen_t& size) {
  if (name.empty() || name.size() + 1 > sizeof address.sun_path) return false;
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // after a zero: not a name in the file system
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return true;
}

Result<Descriptor> ConnectByTcp(const HostAndPort& to) {
  SKEIN_ASSIGN_OR_RETURN(const Addresses addresses, AddressesOf(to.host, to.port, SOCK_STREAM, "control-address"));
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    Descriptor socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.valid() || ::connect(socket.get(), one->ai_addr, one->ai_addrlen) != 0) continue;
    SendAtOnce(socket.get());
    return socket;
  }
  return Status(Code::kUnavailable, fmt::format("the supervisor cannot be reached at {} port {}: {}; see --control-address", to.host, to.port,
                                                std::strerror(errno)));
}

}  // namespace

Result<std::string> RandomName() {
  std::uint8_t bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) return MissingError("the system has no random numbers");
  std::string text;
  for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

bool SameSecret(const std::string& a, const std::string& b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

Result<Endpoint> ListenOnThisHost() {
  SKEIN_ASSIGN_OR_RETURN(const std::string random, RandomName());
  Endpoint endpoint{Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), "skein-" + random};
  sockaddr_un address;
  socklen_t size = 0;
  if (!endpoint.listener.valid() || !AbstractAddress(endpoint.name, address, size) ||
      ::bind(endpoint.listener.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(endpoint.listener.get(), kBacklog) != 0) {
    return NoSocket();
  }
  return endpoint;
}

Result<Endpoint> ListenAt(const std::string& address) {
  const HostAndPort at = Split(address);
  if (at.host.empty() || at.port.empty() || at.port.size() > 5 || at.port.find_first_not_of("0123456789") != std::string::npos) {
    return InvalidArgument(fmt::format("a control address is ADDR or ADDR:PORT, found '{}'", address), "control-address");
  }
  SKEIN_ASSIGN_OR_RETURN(const Addresses addresses, AddressesOf(at.host, at.port, SOCK_STREAM, "control-address"));
  const addrinfo& first = *addresses;
  Endpoint endpoint{Descriptor(::socket(first.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), ""};
  if (!endpoint.listener.valid()) return NoSocket();
  const int yes = 1;
  ::setsockopt(endpoint.listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // the next replica's is the same
  if (::bind(endpoint.listener.get(), first.ai_addr, first.ai_addrlen) != 0) {
    if (errno == EADDRINUSE) return Status(Code::kUnavailable, fmt::format("port {} of {} is taken", at.port, at.host), "control-address");
    return InvalidArgument(fmt::format("ranks cannot be awaited at {}: {}; give an address of this host", address, std::strerror(errno)), "control-address");
  }
  SocketAddress bound{};
  socklen_t size = sizeof bound;
  if (::listen(endpoint.listener.get(), kBacklog) != 0 || ::getsockname(endpoint.listener.get(), &bound.any, &size) != 0) return NoSocket();
  const bool six = bound.any.sa_family == AF_INET6;
  endpoint.name = fmt::format(fmt::runtime(six ? "{}[{}]:{}" : "{}{}:{}"), kTcpEndpoint, Shown(bound), ntohs(six ? bound.six.sin6_port : bound.four.sin_port));
  return endpoint;
}

Result<std::string> AddressTowards(const std::vector<std::string>& hosts) {
  std::string loopback = "127.0.0.1";
  for (const std::string& host : hosts) {
    SKEIN_ASSIGN_OR_RETURN(const Addresses addresses, AddressesOf(host, kAnyPort, SOCK_DGRAM, "hosts"));
    for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
      // Nothing is sent: connecting asks for the way alone.
      const Descriptor socket(::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      SocketAddress ours{};
      socklen_t size = sizeof ours;
      if (!socket.valid() || ::connect(socket.get(), one->ai_addr, one->ai_addrlen) != 0 || ::getsockname(socket.get(), &ours.any, &size) != 0) continue;
      const std::string shown = Shown(ours);
      if (!shown.starts_with("127.") && shown != "::1") return ours.any.sa_family == AF_INET6 ? fmt::format("[{}]", shown) : shown;
    }
  }
  return loopback;
}

Result<Descriptor> ConnectTo(const std::string& name) {
  if (name.starts_with(kTcpEndpoint)) return ConnectByTcp(Split(std::string_view(name).substr(kTcpEndpoint.size())));
  sockaddr_un address;
  socklen_t size = 0;
  if (!AbstractAddress(name, address, size)) return InvalidArgument("the supervisor's socket has no name");
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return Status(Code::kUnavailable, fmt::format("the supervisor cannot be reached: {}", std::strerror(errno)));
  }
  return socket;
}

}  // namespace skein::supervisor
