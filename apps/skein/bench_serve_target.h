// SPDX-License-Identifier: Apache-2.0
//
// Where the server of `skein bench serve` is, and a connection to it: a non-blocking socket, with TLS over it where the
// address says https.
//
// Thread rule: values, one thread each. SIGPIPE must be ignored, since TLS writes may cause it.
#pragma once

#include <sys/socket.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "server/http/transport.h"

namespace skein::app {

// `prefix` stands before every path.
struct Target {
  std::string authority;  // "localhost:8000", for the Host header
  std::string prefix;     // "" or "/x"
  std::string host;       // "localhost", whom a certificate must name
  bool secure = false;
  sockaddr_storage address{};
  socklen_t address_bytes = 0;
};
// "http://HOST[:PORT][/PREFIX]", or https. Errors: kInvalidArgument for what is no such URL, kUnavailable for an unknown host.
// `flag`: what errors call it.
Result<Target> ResolveTarget(const std::string& base_url, const std::string& flag = "--base-url");

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return number_; }
  bool open() const { return number_ >= 0; }
  void Close();

 private:
  int number_ = -1;
};

class ClientSocket {
 public:
  // Begins to connect; `tls` is for targets that are secure. False when that fails at once, as why() says.
  bool Open(const Target& target, SSL_CTX* tls);
  // Goes on connecting. kDone: requests may be sent. kAgain: not yet, wants_write() says what to wait for.
  server::Io Connect();
  server::Io Read(std::span<char> into);
  server::Io Write(std::string_view bytes);
  // What kAgain waits for; before the connection stands, room to write.
  bool wants_write() const { return wants_write_; }
  bool secure() const { return transport_.secure(); }
  // What went wrong last.
  const std::string& why() const { return why_; }

  int get() const { return descriptor_.get(); }
  bool open() const { return descriptor_.open(); }
  void Close();

 private:
  server::Io Noted(server::Io io);

  Descriptor descriptor_;
  server::Transport transport_;
  bool connected_ = false;  // by TCP
  bool wants_write_ = true;
  std::string why_;
};

}  // namespace skein::app
