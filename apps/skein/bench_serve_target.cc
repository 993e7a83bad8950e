// SPDX-License-Identifier: Apache-2.0
#include "bench_serve_target.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace skein::app {
namespace {

using server::Io;

constexpr int kProbeMs = 3000;

std::string ErrorName(int error) { return std::strerror(error); }  // NOLINT: one thread

bool Visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

bool TakesConnections(const addrinfo& address) {
  Target target;
  std::memcpy(&target.address, address.ai_addr, address.ai_addrlen);
  target.address_bytes = address.ai_addrlen;
  ClientSocket probe;
  if (!probe.Open(target, nullptr)) return false;
  pollfd wait{.fd = probe.get(), .events = POLLOUT, .revents = 0};
  return ::poll(&wait, 1, kProbeMs) > 0 && probe.Connect().kind == Io::Kind::kDone;
}

}  // namespace

Result<Target> ResolveTarget(const std::string& base_url, const std::string& flag) {
  constexpr std::string_view kPlain = "http://", kSecure = "https://";
  const auto wrong = [&] {
    return InvalidArgument(fmt::format("{} is expected to be http://HOST:PORT or https://HOST:PORT, found '{}'", flag, base_url.substr(0, 80)), flag);
  };
  Target target;
  target.secure = base_url.starts_with(kSecure);
  if (!Visible(base_url) || (!target.secure && !base_url.starts_with(kPlain))) return wrong();
  const std::string rest = base_url.substr(target.secure ? kSecure.size() : kPlain.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  target.authority = rest.substr(0, slash);
  target.prefix = rest.substr(slash);
  while (target.prefix.ends_with('/')) target.prefix.pop_back();
  std::string host = target.authority, port = target.secure ? "443" : "80";
  const std::size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) {
    port = host.substr(colon + 1);
    host.resize(colon);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (host.empty() || !digits || target.authority.find('@') != std::string::npos) return wrong();
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0 || found == nullptr) {
    return Status(Code::kUnavailable, fmt::format("{}: {} is not known: {}; check the host's name", flag, host, ::gai_strerror(error)), flag);
  }
  // The first address that takes a connection: localhost may be ::1 first while the server listens on 127.0.0.1.
  const addrinfo* chosen = found;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (TakesConnections(*one)) {
      chosen = one;
      break;
    }
  }
  std::memcpy(&target.address, chosen->ai_addr, chosen->ai_addrlen);
  target.address_bytes = chosen->ai_addrlen;
  ::freeaddrinfo(found);
  target.host = std::move(host);
  return target;
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  Close();
  number_ = std::exchange(other.number_, -1);
  return *this;
}

void Descriptor::Close() {
  if (open()) ::close(std::exchange(number_, -1));
}

bool ClientSocket::Open(const Target& target, SSL_CTX* tls) {
  Close();
  descriptor_ = Descriptor(::socket(target.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (open()) ::setsockopt(get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (!open() || (::connect(get(), reinterpret_cast<const sockaddr*>(&target.address), target.address_bytes) != 0 && errno != EINPROGRESS)) {
    why_ = ErrorName(errno);
    Close();
    return false;
  }
  transport_ = server::Transport();
  transport_.AttachAsClient(get(), target.secure ? tls : nullptr, target.host);
  connected_ = false;
  wants_write_ = true;
  return true;
}

void ClientSocket::Close() {
  transport_ = server::Transport();  // before its socket
  descriptor_.Close();
}

Io ClientSocket::Connect() {
  if (!connected_) {
    int error = 0;
    socklen_t bytes = sizeof error;
    ::getsockopt(get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) {
      why_ = ErrorName(error);
      return {Io::Kind::kError};
    }
    pollfd ready{.fd = get(), .events = POLLOUT, .revents = 0};
    if (::poll(&ready, 1, 0) <= 0) return {Io::Kind::kAgain};
    connected_ = true;
  }
  if (!secure()) return {Io::Kind::kDone};
  return Noted(transport_.Handshake());
}

Io ClientSocket::Read(std::span<char> into) { return Noted(transport_.Read(into)); }

Io ClientSocket::Write(std::string_view bytes) {
  const Io io = Noted(transport_.Write(bytes));
  if (!secure()) wants_write_ = io.kind == Io::Kind::kAgain;
  return io;
}

Io ClientSocket::Noted(Io io) {
  if (io.kind == Io::Kind::kError) why_ = secure() ? transport_.TlsError() : ErrorName(errno);
  wants_write_ = secure() && transport_.wants_write();
  return io;
}

}  // namespace skein::app
