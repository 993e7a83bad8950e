// SPDX-License-Identifier: Apache-2.0
//
// HttpServer listens on one address, reads requests with one I/O thread of its own and gives them to the router's
// handlers on that thread.
//
// Thread rule: Start, Stop and the destructor by the owner, not from the I/O thread; what else says so.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/status.h"
#include "server/http/exchange.h"
#include "server/http/http_options.h"
#include "server/http/router.h"
#include "server/http/timer.h"

namespace skein::server {

class HttpServer {
 public:
  // Raises the process's limit of open descriptors as far as it may, binds, listens and serves at once. Errors:
  // kInvalidArgument or kInvalidFile for keys, certificates and addresses; kUnavailable when the port is taken.
  static Result<std::unique_ptr<HttpServer>> Start(HttpOptions options, Router router);
  ~HttpServer();  // Stop

  std::string url() const;  // "http://127.0.0.1:8000"
  int port() const;

  void Post(std::function<void()> function);  // any thread: runs it on the I/O thread, in order
  // I/O thread: runs it there, later, unless the timer has been let go of by then.
  [[nodiscard]] Timer After(std::chrono::nanoseconds delay, std::function<void()> function);

  std::size_t connections() const;  // any thread
  std::size_t streams() const;      // any thread: event streams that have not ended

  // Any thread. For a drain: idle connections are closed, every answer from now on is its connection's last. The door
  // stays open, so that /live and /ready still answer; routes that start work refuse by themselves.
  void StopAccepting();
  // I/O thread. Calls `told` there once no answer is being made and the kernel has every byte of those that were; a
  // client that reads nothing is cut after HttpLimits::stalled_time, so that this ends.
  void WhenAnswered(std::function<void()> told);
  // Cuts what is open (their owners hear of it) and joins. Idempotent.
  void Stop();

 private:
  explicit HttpServer(std::shared_ptr<HttpCore> core);

  std::shared_ptr<HttpCore> core_;
  std::thread thread_;
};

}  // namespace skein::server
