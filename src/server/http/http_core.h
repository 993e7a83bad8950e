// SPDX-License-Identifier: Apache-2.0
//
// HttpCore is what all connections of a server share: the loop, the gate, the limits and the counts. It accepts
// connections, looks at each a few times a second for what takes too long, and writes what answers have gathered once
// a turn.
//
// Thread rule: the I/O thread, but for Post and the atomic counts. Lives as long as its HttpServer.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/status.h"
#include "server/http/gate.h"
#include "server/http/http_options.h"
#include "server/http/timer.h"
#include "server/http/transport.h"

namespace skein::server {

// "127.0.0.1:8000", "[::1]:8000".
std::string NameOf(const boost::asio::ip::tcp::endpoint& endpoint);

class Connection;
using ConnectionList = std::list<std::shared_ptr<Connection>>;

class HttpCore : public std::enable_shared_from_this<HttpCore> {
 public:
  explicit HttpCore(HttpOptions options);

  // Binds, listens, reads keys and certificates. Errors: kInvalidArgument, kInvalidFile, kUnavailable (port taken).
  Status Open(Router router);
  void Start();  // arms what waits; the loop runs after it
  void Run();    // the I/O thread's function, until the loop is stopped

  void Post(std::function<void()> function);  // any thread
  [[nodiscard]] Timer After(std::chrono::nanoseconds delay, std::function<void()> function);
  void StopAccepting();
  void WhenAnswered(std::function<void()> told);
  void CloseAll();

  // For connections.
  const HttpOptions& options() const { return options_; }
  const HttpLimits& limits() const { return options_.limits; }
  const Gate& gate() const { return *gate_; }
  std::span<char> scratch() { return scratch_; }  // for one read, within one turn
  bool stopping() const { return stopping_; }
  void QueueFlush(std::shared_ptr<Connection> connection);
  void Remove(ConnectionList::iterator place);
  void OnAnswered();  // a connection has nothing more to say
  void Log(LogLevel level, std::string_view text) const;

  bool tls() const { return tls_ != nullptr; }
  boost::asio::ip::tcp::endpoint endpoint() const { return endpoint_; }

  std::atomic<std::size_t> connections{0};
  std::atomic<std::size_t> streams{0};
  std::atomic<std::size_t> body_bytes{0};  // of all requests being read or answered

 private:
  Status ReadKeys(ApiKeys& keys);
  Status Bind();
  void WaitForConnections();
  void AcceptSome();
  bool AcceptOne();  // whether there may be more
  bool SomebodyWaits();
  bool MakePlace();
  void PauseAccepting();
  void FlushQueued();
  void Sweep();

  HttpOptions options_;
  std::unique_ptr<Gate> gate_;
  TlsContext tls_;
  boost::asio::io_context io_{1};
  boost::asio::ip::tcp::acceptor acceptor_{io_};
  boost::asio::steady_timer sweep_timer_{io_};
  boost::asio::steady_timer accept_timer_{io_};
  boost::asio::ip::tcp::endpoint endpoint_;
  std::chrono::milliseconds sweep_period_{250};
  std::size_t connections_max_ = 0;
  bool stopping_ = false;
  std::function<void()> answered_;  // who waits for the last answer's last byte
  bool out_of_descriptors_ = false;  // said in the log once, until it is over
  ConnectionList all_;
  std::vector<std::shared_ptr<Connection>> to_flush_, flushing_;
  std::array<char, 64 * 1024> scratch_{};
};

}  // namespace skein::server
