// SPDX-License-Identifier: Apache-2.0
#include "server/http/transport.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include <fmt/format.h>
#include <linux/sockios.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace skein::server {
namespace {

int SizeForTls(std::size_t size) { return static_cast<int>(std::min<std::size_t>(size, INT_MAX)); }

bool IsAgain(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

TlsContext NewContext(const SSL_METHOD* method) {
  TlsContext context(SSL_CTX_new(method));
  if (context == nullptr) return context;
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

}  // namespace

Result<TlsContext> LoadTlsContext(const std::string& cert, const std::string& key) {
  TlsContext context = NewContext(TLS_server_method());
  if (context == nullptr) return InternalError("TLS could not be set up");
  // Resumption by tickets needs no memory here; a cache of sessions would.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context.get(), cert.c_str()) != 1) {
    return InvalidFile(fmt::format("{}: expected a certificate chain in PEM", cert), "tls_cert");
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return InvalidFile(fmt::format("{}: expected the certificate's private key in PEM", key), "tls_key");
  }
  if (SSL_CTX_check_private_key(context.get()) != 1) {
    return InvalidFile(fmt::format("{}: the key does not belong to the certificate {}", key, cert), "tls_key");
  }
  return context;
}

Result<TlsContext> LoadClientTlsContext(const std::string& ca_file, bool insecure) {
  TlsContext context = NewContext(TLS_client_method());
  if (context == nullptr) return InternalError("TLS could not be set up");
  if (insecure) return context;
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  ERR_clear_error();
  const int loaded = ca_file.empty() ? SSL_CTX_set_default_verify_paths(context.get())
                                     : SSL_CTX_load_verify_file(context.get(), ca_file.c_str());
  if (loaded != 1) return InvalidFile(fmt::format("{}: expected certificates in PEM", ca_file), "ca_file");
  return context;
}

void Transport::Attach(int socket, SSL_CTX* context) {
  socket_ = socket;
  if (context == nullptr) return;
  ssl_.reset(SSL_new(context));
  if (ssl_ == nullptr) return;
  SSL_set_fd(ssl_.get(), socket);
  SSL_set_accept_state(ssl_.get());
}

void Transport::AttachAsClient(int socket, SSL_CTX* context, const std::string& host) {
  Attach(socket, context);
  if (ssl_ == nullptr) return;
  SSL_set_connect_state(ssl_.get());
  // An address is compared as one, and not sent as a name (RFC 6066, 3).
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), host.c_str()) == 1) return;
  SSL_set1_host(ssl_.get(), host.c_str());
  SSL_set_tlsext_host_name(ssl_.get(), host.c_str());
}

Io Transport::Handshake() {
  ERR_clear_error();
  return FromTls(SSL_do_handshake(ssl_.get()));
}

Io Transport::Read(std::span<char> into) {
  if (ssl_ != nullptr) {
    ERR_clear_error();
    return FromTls(SSL_read(ssl_.get(), into.data(), SizeForTls(into.size())));
  }
  const ssize_t got = ::recv(socket_, into.data(), into.size(), 0);
  if (got > 0) return {Io::Kind::kDone, static_cast<std::size_t>(got)};
  if (got == 0) return {Io::Kind::kEof};
  return {IsAgain(errno) ? Io::Kind::kAgain : Io::Kind::kError};
}

Io Transport::Write(std::string_view bytes) {
  if (ssl_ != nullptr) {
    ERR_clear_error();
    return FromTls(SSL_write(ssl_.get(), bytes.data(), SizeForTls(bytes.size())));
  }
  const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent >= 0) return {Io::Kind::kDone, static_cast<std::size_t>(sent)};
  return {IsAgain(errno) ? Io::Kind::kAgain : Io::Kind::kError};
}

bool Transport::PeerLeft() const {
  pollfd socket{.fd = socket_, .events = POLLRDHUP, .revents = 0};
  return ::poll(&socket, 1, 0) > 0;
}

std::size_t Transport::HeldByKernel() const {
  int bytes = 0;
  return ::ioctl(socket_, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

std::string Transport::TlsError() const {
  const long verified = SSL_get_verify_result(ssl_.get());
  if (SSL_get_verify_mode(ssl_.get()) != SSL_VERIFY_NONE && verified != X509_V_OK) {
    return fmt::format("its certificate is not accepted: {}", X509_verify_cert_error_string(verified));
  }
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason != nullptr ? fmt::format("TLS: {}", reason) : "TLS: the connection was closed";
}

void Transport::ShutdownWrite() {
  if (ssl_ != nullptr && SSL_is_init_finished(ssl_.get()) == 1) {
    ERR_clear_error();
    static_cast<void>(SSL_shutdown(ssl_.get()));  // our close_notify; the client's need not be waited for
  }
  static_cast<void>(::shutdown(socket_, SHUT_WR));
}

Io Transport::FromTls(int result) {
  wants_write_ = false;
  if (result > 0) return {Io::Kind::kDone, static_cast<std::size_t>(result)};
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ: return {Io::Kind::kAgain};
    case SSL_ERROR_WANT_WRITE: wants_write_ = true; return {Io::Kind::kAgain};
    case SSL_ERROR_ZERO_RETURN: return {Io::Kind::kEof};
    default: return {Io::Kind::kError};
  }
}

}  // namespace skein::server
