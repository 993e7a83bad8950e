// SPDX-License-Identifier: Apache-2.0
//
// TestClient is a socket for tests that sends bytes as they are and reads what comes, with a deadline that only a hang
// meets. TestServer is an HttpServer on a free port of loopback with the routes that most tests want.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/error_response.h"
#include "server/http/http_server.h"

namespace skein::server {

class TestClient {
 public:
  // `receive_bytes` > 0 makes the kernel's receive buffer that small.
  explicit TestClient(int port, int receive_bytes = 0) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_bytes > 0) setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~TestClient() { Close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool connected() const { return connected_; }
  int socket() const { return socket_; }

  // False once the server has closed. Reads meanwhile, so that neither waits for the other.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      pollfd wait{.fd = socket_, .events = POLLIN | POLLOUT, .revents = 0};
      if (::poll(&wait, 1, kHangMs) <= 0) return false;
      if ((wait.revents & POLLIN) != 0 && !ReadSome(0)) return false;
      if ((wait.revents & POLLOUT) == 0) continue;
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // Reads until `wanted` has come; false when the server closed before, or hangs.
  bool ReadUntil(std::string_view wanted) {
    while (found_.find(wanted) == std::string::npos) {
      if (!ReadSome(kHangMs)) return false;
    }
    return true;
  }
  bool ReadBytes(std::size_t count) {
    while (found_.size() < count) {
      if (!ReadSome(kHangMs)) return false;
    }
    return true;
  }
  // Reads until the server closes; false when it does not within `ms`.
  bool ReadToEnd(int ms = kHangMs) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    while (!closed_) {
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left <= left.zero()) return false;
      ReadSome(static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    }
    return true;
  }
  void HalfClose() { ::shutdown(socket_, SHUT_WR); }
  void Close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

  const std::string& found() const { return found_; }
  std::string TakeFound() { return std::exchange(found_, std::string()); }
  std::vector<int> Statuses() const { return StatusesIn(found_); }

  static std::vector<int> StatusesIn(std::string_view text) {
    std::vector<int> codes;
    for (std::size_t at = text.find("HTTP/1."); at != std::string_view::npos; at = text.find("HTTP/1.", at + 1)) {
      const std::string_view code = text.substr(std::min(at + 8, text.size()), 5);  // " 200 "
      const auto digit = [&](std::size_t k) { return code[k] >= '0' && code[k] <= '9'; };
      if (code.size() < 5 || code[0] != ' ' || code[4] != ' ' || !digit(1) || !digit(2) || !digit(3)) continue;
      codes.push_back(std::stoi(std::string(code.substr(1, 3))));
    }
    return codes;
  }

 private:
  static constexpr int kHangMs = 20'000;

  bool ReadSome(int wait_ms) {
    pollfd wait{.fd = socket_, .events = POLLIN, .revents = 0};
    if (wait_ms > 0 && ::poll(&wait, 1, wait_ms) <= 0) return false;
    char buffer[65536];
    const ssize_t got = ::recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0) {
      found_.append(buffer, static_cast<std::size_t>(got));
      return true;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    closed_ = true;
    return false;
  }

  int socket_;
  bool connected_ = false;
  bool closed_ = false;
  std::string found_;
};

// GET /live answers "live", POST /echo answers its body, GET /v1/models/{id} answers what stood for {id}.
inline Router TestRoutes() {
  const auto text = [](std::string body) {
    HttpResponse response;
    response.content_type = "text/plain";
    response.body = std::move(body);
    return response;
  };
  Router router;
  router.Add(Route("GET", "/live", Scope::kOpen, [text](auto exchange) { exchange->Respond(text("live")); }));
  router.Add(Route("POST", "/echo", Scope::kUser,
                   [text](auto exchange) { exchange->Respond(text(exchange->request().body)); }));
  router.Add(Route("GET", "/v1/models", Scope::kUser, [text](auto exchange) { exchange->Respond(text("models")); }));
  router.Add(Route("GET", "/v1/models/{id}", Scope::kUser,
                   [text](auto exchange) { exchange->Respond(text(exchange->request().rest)); }));
  router.Add(Route("POST", "/admin", Scope::kAdmin, [text](auto exchange) { exchange->Respond(text("admin")); }));
  return router;
}

class TestServer {
 public:
  explicit TestServer(HttpOptions options = {}, Router router = TestRoutes()) {
    options.port = 0;
    auto started = HttpServer::Start(std::move(options), std::move(router));
    EXPECT_TRUE(started.ok()) << started.status().message();
    if (started.ok()) server_ = std::move(started).value();
  }

  HttpServer& operator*() { return *server_; }
  HttpServer* operator->() { return server_.get(); }
  int port() const { return server_->port(); }

  // One request on a connection of its own; everything that came back.
  std::string Ask(std::string_view bytes) const {
    TestClient client(port());
    client.Send(bytes);
    EXPECT_TRUE(client.ReadToEnd()) << client.found();
    return client.found();
  }
  // Whether an ordinary request is served.
  bool Serves() const {
    return Ask("GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ends_with("\r\n\r\nlive");
  }

 private:
  std::unique_ptr<HttpServer> server_;
};

// Waits for another thread; false when it never comes.
template <typename Condition>
bool Eventually(Condition condition) {
  for (int k = 0; k < 4000; ++k) {
    if (condition()) return true;
    ::usleep(5000);
  }
  return condition();
}

}  // namespace skein::server
