// SPDX-License-Identifier: Apache-2.0
//
// HttpOptions is everything that the HTTP server is told at its start; HttpLimits what one client may cost it. The
// defaults serve one machine: loopback only, plain HTTP, no keys.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "server/http/http_request.h"

namespace skein::server {

struct HttpLimits {
  std::size_t header_bytes = 16 * 1024;            // request line and headers together, and trailers: 431
  std::size_t header_count = 100;                  // 431
  std::size_t target_bytes = 8 * 1024;             // 414
  std::size_t body_bytes = 32 * 1024 * 1024;       // of one request: 413
  std::size_t bodies_bytes = 512 * 1024 * 1024;    // of all requests being read or answered: 503
  std::size_t body_rate = 1024;                    // bytes a second that a body must come with after body_time
  std::size_t connections = 0;                     // 0: what the limit of open descriptors leaves
  std::chrono::milliseconds header_time{10'000};   // from a request's first byte to its empty line, and TLS handshakes
  std::chrono::milliseconds body_time{30'000};     // for a body, beside body_rate
  std::chrono::milliseconds idle_time{75'000};     // between two requests
  std::chrono::milliseconds stalled_time{10'000};  // bytes wait and the client's side takes none: it is cut
  std::chrono::milliseconds ping_time{15'000};     // an event stream is silent: it gets a comment
  std::chrono::milliseconds linger_time{2'000};    // for what a client still sends after our last answer
};

// One answer that has ended, for logs and metrics.
struct AnswerNote {
  const HttpRequest* request;  // null when the request could not be read
  std::string_view route;      // the path as the route has it ("/v1/models/{id}"); empty when none was found
  int status;                  // 499: it was cut before it had one
  bool cut;                           // the client left, or was cut, before the answer's end
  std::chrono::nanoseconds duration;  // since the request's first byte
};

struct HttpOptions {
  std::string host = "127.0.0.1";            // an address, or a name of this machine
  int port = 8000;                           // 0: a free one
  std::string tls_cert, tls_key;             // files in PEM; both or none
  std::string api_key_file;                  // see ApiKeys for its lines
  std::string api_keys;                      // the same lines as text, from the environment
  std::vector<std::string> allowed_hosts;    // names beside the own ones
  std::vector<std::string> allowed_origins;  // "https://chat.example", pages that may ask
  HttpLimits limits;
  std::function<void(LogLevel, std::string_view)> log;  // any thread; may be empty
  std::function<void(const AnswerNote&)> on_answer;     // I/O thread; may be empty
};

}  // namespace skein::server
