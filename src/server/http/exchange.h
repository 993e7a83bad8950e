// SPDX-License-Identifier: Apache-2.0
//
// Exchange is one request and the way to answer it: as a whole, or as a stream of events. The handler keeps it as long
// as the answer takes. When the last owner lets go of one that has no end yet, the client gets a 500, or its stream
// is cut.
//
// Thread rule: the I/O thread only. (The last owner may let go anywhere.)
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/http_request.h"

namespace skein::server {

class Connection;
class HttpCore;

// More bytes than this that the client has not taken yet mean a slow reader: pause what makes them.
inline constexpr std::size_t kUnsentMax = 256 * 1024;

class Exchange {
 public:
  // Made by the connection that read the request.
  Exchange(HttpRequest request, std::weak_ptr<Connection> connection, std::weak_ptr<HttpCore> core);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const HttpRequest& request() const { return request_; }
  // Frees the body once it has been read: a request may be answered for minutes.
  void ReleaseBody();

  // The whole answer. Requires: nothing answered yet. Without effect once the client has gone, as all that follow.
  void Respond(HttpResponse response);

  // 200 and text/event-stream, with more headers if wanted. Requires: nothing answered yet.
  void BeginEvents(std::vector<HttpHeader> headers = {});
  // Bytes of one or more whole events, with their empty lines. They leave at the end of this turn of the loop, all of
  // a connection in one write. Requires: BeginEvents before, no EndEvents.
  void Send(std::string_view bytes);
  void EndEvents();
  // Cuts the connection without a right end, so that the client sees that something is missing.
  void Fail();

  // Whether an answer can still reach the client.
  bool open() const;
  // Sent by us and not taken by the kernel yet.
  std::size_t unsent_bytes() const;

  // Called once when the client has closed, or was cut because it took no bytes for too long, before the answer's end.
  // A client that closes its sending half counts as gone.
  void OnGone(std::function<void()> gone);
  // Called whenever unsent_bytes has fallen below half of kUnsentMax after having been above it.
  void OnRoom(std::function<void()> room);

 private:
  friend class Connection;
  std::function<void()> TakeGone() { return std::exchange(gone_, nullptr); }
  void CallRoom();
  void End();

  HttpRequest request_;
  std::weak_ptr<Connection> connection_;
  std::weak_ptr<HttpCore> core_;
  std::size_t body_bytes_;  // counted in the core as long as they are held
  bool ended_ = false;      // answered, or the client has gone
  std::function<void()> gone_;
  std::function<void()> room_;
};

}  // namespace skein::server
