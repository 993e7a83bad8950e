// SPDX-License-Identifier: Apache-2.0
#include "streams_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <string_view>

#include "bench_serve_events.h"
#include "bench_serve_http.h"

namespace skein::bench {
namespace {

constexpr std::size_t kReadBytes = 64 << 10;
constexpr int kEventsAtOnce = 512;
constexpr int kSilenceMs = 60'000;  // nothing at all for so long: something hangs

struct Stream {
  int socket = -1;
  bool active = false;
  bool opened = false;
  std::uint64_t next = 0;
  app::HttpAnswerParser parser;
  app::EventReader events;
};

class Clients {
 public:
  Clients(int port, int control) : control_(control), epoll_(::epoll_create1(EPOLL_CLOEXEC)), block_(kReadBytes, '\0') {
    address_.sin_family = AF_INET;
    address_.sin_port = htons(static_cast<std::uint16_t>(port));
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }

  void Open(std::string_view path, bool active) {
    auto stream = std::make_unique<Stream>();
    stream->active = active;
    stream->socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const std::string request = "POST " + std::string(path) + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}";
    epoll_event event{.events = EPOLLIN, .data = {.ptr = stream.get()}};
    const bool sent = ::connect(stream->socket, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) == 0 &&
                      ::send(stream->socket, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size()) &&
                      ::epoll_ctl(epoll_, EPOLL_CTL_ADD, stream->socket, &event) == 0;
    if (sent) {
      if (active) ++active_left_;
      ++waiting_;
    } else {
      ++outcome_.failed;
    }
    streams_.push_back(std::move(stream));
    Turn(0);
  }

  StreamsOutcome Run() {
    while (waiting_ > 0 && Turn(kSilenceMs)) {
    }
    if (::write(control_, "o", 1) != 1) ++outcome_.failed;
    while (active_left_ > 0 && Turn(kSilenceMs)) {
    }
    outcome_.failed += active_left_ + waiting_;
    std::sort(delays_ms_.begin(), delays_ms_.end());
    if (!delays_ms_.empty()) {
      outcome_.delay_median_ms = static_cast<double>(delays_ms_[delays_ms_.size() / 2]);
      outcome_.delay_p99_ms = static_cast<double>(delays_ms_[delays_ms_.size() * 99 / 100]);
      outcome_.delay_max_ms = static_cast<double>(delays_ms_.back());
    }
    return outcome_;
  }

 private:
  // False when nothing came for `wait_ms`.
  bool Turn(int wait_ms) {
    epoll_event ready[kEventsAtOnce];
    const int count = ::epoll_wait(epoll_, ready, kEventsAtOnce, wait_ms);
    for (int i = 0; i < count; ++i) Read(*static_cast<Stream*>(ready[i].data.ptr));
    return count > 0;
  }

  void Read(Stream& stream) {
    const ssize_t count = ::recv(stream.socket, block_.data(), block_.size(), MSG_DONTWAIT);
    if (count <= 0) return Close(stream, /*whole=*/false);
    const std::int64_t now_ns = std::chrono::steady_clock::now().time_since_epoch().count();
    body_.clear();
    data_.clear();
    const auto state = stream.parser.Feed(std::string_view(block_).substr(0, static_cast<std::size_t>(count)), body_);
    if (!stream.opened && stream.parser.has_head()) {
      stream.opened = true;
      --waiting_;
      if (stream.parser.status() == 200) ++outcome_.opened;
    }
    stream.events.Feed(body_, data_);
    for (const std::string& data : data_) Note(stream, data, now_ns);
    if (state != app::HttpAnswerParser::State::kReading) Close(stream, state == app::HttpAnswerParser::State::kDone);
  }

  void Note(Stream& stream, const std::string& data, std::int64_t now_ns) {
    std::uint64_t sequence = 0;
    std::int64_t made_ns = 0;
    const char* end = data.data() + data.size();
    const auto first = std::from_chars(data.data(), end, sequence);
    if (first.ptr == end || std::from_chars(first.ptr + 1, end, made_ns).ec != std::errc() || sequence != stream.next) ++outcome_.misplaced;
    stream.next = sequence + 1;
    ++outcome_.events;
    delays_ms_.push_back(static_cast<float>(static_cast<double>(now_ns - made_ns) / 1e6));
  }

  void Close(Stream& stream, bool whole) {
    ::close(stream.socket);
    if (!stream.opened) --waiting_;
    stream.opened = true;
    if (!whole) ++outcome_.failed;
    if (stream.active) --active_left_;
  }

  sockaddr_in address_{};
  int control_, epoll_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::uint64_t active_left_ = 0, waiting_ = 0;  // streams that have not ended; answers that have not begun
  StreamsOutcome outcome_;
  std::vector<float> delays_ms_;
  std::string block_, body_;
  std::vector<std::string> data_;
};

}  // namespace

StreamsOutcome RunStreamClients(int port, int idle, int active, int control) {
  Clients clients(port, control);
  for (int i = 0; i < idle; ++i) clients.Open("/idle", false);
  for (int i = 0; i < active; ++i) clients.Open("/active", true);
  return clients.Run();
}

}  // namespace skein::bench
