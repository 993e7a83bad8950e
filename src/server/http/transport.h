// SPDX-License-Identifier: Apache-2.0
//
// Transport moves bytes over a non-blocking socket, plain or by TLS, without buffers of its own: a connection that
// waits costs nothing but its descriptor (and, with TLS, the library's state).
//
// Thread rule: one owner at a time. The I/O thread has SIGPIPE blocked, which TLS writes need.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <openssl/ssl.h>

#include "base/status.h"

namespace skein::server {

struct TlsContextFree {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using TlsContext = std::unique_ptr<SSL_CTX, TlsContextFree>;

// TLS 1.2 and later with this certificate chain and key, files in PEM. Errors: kInvalidFile naming the file.
Result<TlsContext> LoadTlsContext(const std::string& cert, const std::string& key);
// For the other side: servers must show a certificate for their name, signed by one of `ca_file` (PEM) or, without a
// file, by one that this machine trusts. `insecure`: any will do. Errors: kInvalidFile naming the file.
Result<TlsContext> LoadClientTlsContext(const std::string& ca_file, bool insecure);

struct Io {
  enum class Kind { kDone, kAgain, kEof, kError };
  Kind kind;
  std::size_t bytes = 0;  // moved, with kDone
};

class Transport {
 public:
  // The socket stays the caller's. `context` may be null: plain bytes.
  void Attach(int socket, SSL_CTX* context);
  // The same for a client of `host`, a name or an address.
  void AttachAsClient(int socket, SSL_CTX* context, const std::string& host);

  bool secure() const { return ssl_ != nullptr; }
  Io Handshake();  // kDone once it is through; with kAgain, `wants_write` says what to wait for
  bool wants_write() const { return wants_write_; }
  Io Read(std::span<char> into);
  Io Write(std::string_view bytes);
  bool PeerLeft() const;  // whether the client has closed, at least its sending half; bytes of its may still be unread
  std::size_t HeldByKernel() const;  // bytes written that the client's side has not acknowledged yet
  std::string TlsError() const;  // why TLS gave kError just now
  void ShutdownWrite();   // the client reads an end; what it sends can still be read

 private:
  Io FromTls(int result);

  struct SslFree {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  int socket_ = -1;
  std::unique_ptr<SSL, SslFree> ssl_;
  bool wants_write_ = false;
};

}  // namespace skein::server
