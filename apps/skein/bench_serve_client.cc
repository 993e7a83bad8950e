// SPDX-License-Identifier: Apache-2.0
#include "bench_serve_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>

#include "bench_serve_http.h"

namespace skein::app {
namespace {

using Clock = std::chrono::steady_clock;
using server::Io;

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kErrorBodyBytes = 4 << 10;  // of an answer that is no success; the rest is not kept
constexpr std::size_t kEventsAtOnce = 256;
constexpr std::chrono::milliseconds kLongestWait{100};  // so that Ctrl-C and progress are looked at

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string ErrorName(int error) { return std::strerror(error); }  // NOLINT: one thread

std::string RequestText(const ClientOptions& options, std::string_view method, std::string_view path, std::string_view body) {
  std::string text = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: skein-bench\r\nAccept: */*\r\n", method,
                                 options.target.prefix, path, options.target.authority);
  if (!options.api_key.empty()) text += fmt::format("Authorization: Bearer {}\r\n", options.api_key);
  if (!body.empty()) text += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  text += "\r\n";
  text += body;
  return text;
}

// One connection and the request it carries, if any.
struct Connection {
  static constexpr std::size_t kNoRequest = static_cast<std::size_t>(-1);

  ClientSocket socket;
  std::uint32_t generation = 0;  // events of an earlier socket of this place are not for the present one
  std::size_t request = kNoRequest;
  bool connecting = false;
  bool used_before = false;  // carried a request before: the server may close it just now
  bool wants_write = false;
  Clock::time_point began;
  std::string out;
  std::size_t sent = 0;
  HttpAnswerParser parser;
  EventReader events;
  GenerationReader generated;
  std::string body;  // of an answer that is an error
  bool heard = false;

  void Begin(std::size_t index, std::string text, Clock::time_point now) {
    request = index;
    began = now;
    Restart(std::move(text));
  }
  void Restart(std::string text) {
    out = std::move(text);
    sent = 0;
    parser = HttpAnswerParser();
    events = EventReader();
    generated = GenerationReader();
    body.clear();
    heard = false;
  }
};

class LoadClient {
 public:
  LoadClient(const ClientOptions& options, const std::vector<LoadRequest>& requests) : options_(options), requests_(requests) {
    outcome_.requests.resize(requests.size());
    block_.resize(kReadBytes);
  }

  Result<RunOutcome> Run(const Cancellation& cancellation, const std::function<void(std::size_t)>& progress) {
    epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_.open()) return MissingError(fmt::format("bench serve needs epoll: {}; run it on Linux", ErrorName(errno)));
    begin_ = Clock::now();
    last_end_ = begin_;
    epoll_event ready[kEventsAtOnce];
    while (finished_ < requests_.size()) {
      if (cancellation.cancelled()) return Status(Code::kCancelled, "interrupted before all requests were answered");
      LaunchDue();
      const int count = ::epoll_wait(epoll_.get(), ready, kEventsAtOnce, WaitMs());
      for (int i = 0; i < count; ++i) {
        const std::size_t place = static_cast<std::uint32_t>(ready[i].data.u64);
        Connection& connection = *connections_[place];
        if (connection.generation == ready[i].data.u64 >> 32) OnReady(place, connection, ready[i].events);
      }
      CutLate();
      progress(finished_);
    }
    outcome_.duration_s = Seconds(last_end_ - begin_);
    return std::move(outcome_);
  }

 private:
  bool MayLaunch() const {
    return next_ < requests_.size() && (options_.max_concurrency == 0 || running_ < options_.max_concurrency);
  }
  Clock::time_point NextArrival() const {
    return begin_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(requests_[next_].arrival_s));
  }

  void LaunchDue() {
    // No more at a time than events are read, so that running streams are not left waiting.
    for (std::size_t launched = 0; launched < kEventsAtOnce && MayLaunch() && NextArrival() <= Clock::now(); ++launched) Launch(next_++);
  }

  int WaitMs() const {
    Clock::duration wait = kLongestWait;
    if (MayLaunch()) wait = std::min<Clock::duration>(wait, NextArrival() - Clock::now());
    if (!deadlines_.empty()) wait = std::min<Clock::duration>(wait, deadlines_.front().time - Clock::now());
    return std::max(0, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(wait).count()));
  }

  void Launch(std::size_t index) {
    const Clock::time_point now = Clock::now();
    outcome_.concurrent_peak = std::max(outcome_.concurrent_peak, ++running_);
    std::size_t place;
    if (!idle_.empty()) {
      place = idle_.back();
      idle_.pop_back();
    } else if (!closed_.empty()) {
      place = closed_.back();
      closed_.pop_back();
    } else {
      place = connections_.size();
      connections_.push_back(std::make_unique<Connection>());
    }
    Connection& connection = *connections_[place];
    connection.Begin(index, TextOf(index), now);
    deadlines_.push_back({now + options_.timeout, place, index});
    if (connection.socket.open()) {
      connection.used_before = true;
      SendMore(place, connection);
    } else {
      Open(place, connection);
    }
  }

  std::string TextOf(std::size_t index) const { return RequestText(options_, "POST", options_.path, requests_[index].body); }

  void Open(std::size_t place, Connection& connection) {
    connection.used_before = false;
    bool begun = connection.socket.Open(options_.target, options_.tls);
    std::string why = connection.socket.why();
    if (begun) {
      ++connection.generation;
      connection.connecting = true;
      connection.wants_write = true;
      begun = Watch(place, connection, EPOLL_CTL_ADD);
      if (!begun) why = ErrorName(errno);
    }
    if (!begun) End(place, connection, fmt::format("cannot connect: {}", why), /*keep=*/false);
  }

  bool Watch(std::size_t place, const Connection& connection, int operation) const {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP | (connection.wants_write ? static_cast<std::uint32_t>(EPOLLOUT) : 0u);
    event.data.u64 = (std::uint64_t{connection.generation} << 32) | place;
    return ::epoll_ctl(epoll_.get(), operation, connection.socket.get(), &event) == 0;
  }
  void WantWrite(std::size_t place, Connection& connection, bool wanted) {
    if (connection.wants_write == wanted) return;
    connection.wants_write = wanted;
    Watch(place, connection, EPOLL_CTL_MOD);
  }

  void OnReady(std::size_t place, Connection& connection, std::uint32_t mask) {
    if (connection.request == Connection::kNoRequest) {  // idle: closed by the server, or it says what nobody asked
      idle_.erase(std::find(idle_.begin(), idle_.end(), place));
      CloseAt(place, connection);
      return;
    }
    if (connection.connecting) {
      const Io io = connection.socket.Connect();
      if (io.kind == Io::Kind::kAgain) return WantWrite(place, connection, connection.socket.wants_write());
      if (io.kind != Io::Kind::kDone) return End(place, connection, fmt::format("cannot connect: {}", connection.socket.why()), /*keep=*/false);
      connection.connecting = false;
    }
    if (connection.sent < connection.out.size() && !SendMore(place, connection)) return;
    if ((mask & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) ReadMore(place, connection);
  }

  // False when the request has ended, or has moved to another socket.
  bool SendMore(std::size_t place, Connection& connection) {
    while (connection.sent < connection.out.size()) {
      const Io io = connection.socket.Write(std::string_view(connection.out).substr(connection.sent));
      if (io.kind == Io::Kind::kDone) {
        connection.sent += io.bytes;
      } else if (io.kind == Io::Kind::kAgain) {
        WantWrite(place, connection, connection.socket.wants_write());
        return true;
      } else {
        // The server may have answered before it closed: what it said is worth more than this error.
        return ReadMore(place, connection, fmt::format("closed while the request was sent: {}", connection.socket.why()));
      }
    }
    WantWrite(place, connection, false);
    return true;
  }

  // False when the request has ended or has moved. `otherwise`: the reason when the connection has nothing to say.
  bool ReadMore(std::size_t place, Connection& connection, const std::string& otherwise = "") {
    bool goes_on = true;
    do {  // what TLS has decrypted already wakes nobody
      const Io io = connection.socket.Read(block_);
      if (io.kind == Io::Kind::kAgain && otherwise.empty()) return true;
      if (io.kind != Io::Kind::kDone) return OnEnd(place, connection, io.kind, otherwise);
      connection.heard = true;
      goes_on = OnBytes(place, connection, std::string_view(block_.data(), io.bytes));
    } while (goes_on && connection.socket.secure());
    return goes_on;
  }

  // The server has closed, or the connection is lost. False, as ReadMore.
  bool OnEnd(std::size_t place, Connection& connection, Io::Kind kind, const std::string& otherwise) {
    if (!connection.heard && connection.used_before) {  // it closed what was idle for it, before it saw the request
      CloseSocket(connection);
      connection.Restart(TextOf(connection.request));
      Open(place, connection);
      return false;
    }
    connection.parser.FeedEnd();
    if (connection.parser.state() == HttpAnswerParser::State::kDone) {
      EndOfAnswer(place, connection);
    } else if (!otherwise.empty()) {
      End(place, connection, otherwise, /*keep=*/false);
    } else {
      const bool lost = kind == Io::Kind::kError;
      End(place, connection, lost ? fmt::format("connection lost: {}", connection.socket.why()) : connection.parser.reason(), false);
    }
    return false;
  }

  bool OnBytes(std::size_t place, Connection& connection, std::string_view bytes) {
    const double at_s = Seconds(Clock::now() - connection.began);
    read_.clear();
    const HttpAnswerParser::State state = connection.parser.Feed(bytes, read_);
    if (connection.parser.status() == 200) {
      data_.clear();
      bool goes_on = connection.events.Feed(read_, data_);
      std::string reason = goes_on ? "" : fmt::format("an event is longer than {} bytes", EventReader::kEventBytesMax);
      for (std::size_t i = 0; i < data_.size() && goes_on; ++i) {
        goes_on = connection.generated.OnEvent(data_[i], at_s);
        if (!goes_on) reason = connection.generated.reason();
      }
      if (!goes_on) {
        End(place, connection, std::move(reason), /*keep=*/false);
        return false;
      }
    } else if (connection.body.size() < kErrorBodyBytes) {
      connection.body.append(read_, 0, kErrorBodyBytes - connection.body.size());
    }
    if (state == HttpAnswerParser::State::kReading) return true;
    if (state == HttpAnswerParser::State::kFailed) {
      End(place, connection, connection.parser.reason(), /*keep=*/false);
    } else {
      EndOfAnswer(place, connection);
    }
    return false;
  }

  void EndOfAnswer(std::size_t place, Connection& connection) {
    // An answer before the whole request was sent leaves the connection in the middle of it.
    const bool keep = connection.parser.keeps_connection() && connection.sent == connection.out.size();
    const int status = connection.parser.status();
    std::string failure;
    if (status == 200) {
      RequestOutcome& outcome = outcome_.requests[connection.request];
      outcome.input_tokens = requests_[connection.request].input_tokens;
      connection.generated.OnEnd(outcome);
      failure = outcome.failure;
    } else {
      failure = fmt::format("status {}: {}", status, ErrorText(connection.body));
    }
    End(place, connection, std::move(failure), keep);
  }

  // `failure` empty: the outcome is complete.
  void End(std::size_t place, Connection& connection, std::string failure, bool keep) {
    RequestOutcome& outcome = outcome_.requests[connection.request];
    if (!failure.empty()) {
      outcome.completed = false;
      outcome.failure = std::move(failure);
    }
    connection.request = Connection::kNoRequest;
    connection.out = std::string();
    last_end_ = Clock::now();
    ++finished_;
    --running_;
    if (keep) {
      idle_.push_back(place);
    } else {
      CloseAt(place, connection);
    }
  }

  static void CloseSocket(Connection& connection) {
    connection.socket.Close();  // leaves epoll by itself
    ++connection.generation;
    connection.connecting = connection.wants_write = false;
  }
  void CloseAt(std::size_t place, Connection& connection) {
    CloseSocket(connection);
    closed_.push_back(place);
  }

  void CutLate() {
    const Clock::time_point now = Clock::now();
    while (!deadlines_.empty()) {
      const Deadline& deadline = deadlines_.front();
      Connection& connection = *connections_[deadline.place];
      const bool runs = connection.request == deadline.request;
      if (runs && deadline.time > now) break;
      const std::size_t place = deadline.place;
      deadlines_.pop_front();
      if (runs) End(place, connection, fmt::format("not done after {:.3g} s (--timeout)", Seconds(options_.timeout)), /*keep=*/false);
    }
  }

  struct Deadline {
    Clock::time_point time;
    std::size_t place;
    std::size_t request;
  };

  const ClientOptions& options_;
  const std::vector<LoadRequest>& requests_;
  Descriptor epoll_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::size_t> idle_, closed_;  // places without a request: with an open socket, and with none
  std::deque<Deadline> deadlines_;          // in order, since all have the same length
  RunOutcome outcome_;
  std::size_t next_ = 0, running_ = 0, finished_ = 0;
  Clock::time_point begin_, last_end_;
  std::string block_, read_;       // of the answer being read
  std::vector<std::string> data_;  // of its events
};

// As many descriptors as this process may have.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Waits until the socket is ready for `events`; false after the deadline.
bool WaitFor(int socket, short events, Clock::time_point deadline) {
  pollfd wait{.fd = socket, .events = events, .revents = 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return left > 0 && ::poll(&wait, 1, static_cast<int>(std::min<long>(left, 1'000'000))) > 0;
}

}  // namespace

Result<FetchedAnswer> Fetch(const ClientOptions& options, std::string_view path) {
  const auto failed = [&](std::string_view why) {
    return Status(Code::kUnavailable, fmt::format("{}://{}{}{} is expected to answer: {}; check that a server runs there",
                                                  options.target.secure ? "https" : "http", options.target.authority, options.target.prefix, path, why),
                  "--base-url");
  };
  const Clock::time_point deadline = Clock::now() + options.timeout;
  ClientSocket socket;
  if (!socket.Open(options.target, options.tls)) return failed(socket.why());
  Io io{Io::Kind::kAgain};
  while (io.kind == Io::Kind::kAgain) {
    if (!WaitFor(socket.get(), socket.wants_write() ? POLLOUT : POLLIN, deadline)) return failed("no connection in time");
    io = socket.Connect();
  }
  if (io.kind != Io::Kind::kDone) return failed(socket.why());
  const std::string request = RequestText(options, "GET", path, "");
  // Less than any socket's buffer: goes at once or not at all.
  io = socket.Write(request);
  if (io.kind != Io::Kind::kDone || io.bytes != request.size()) return failed(io.kind == Io::Kind::kDone ? "it takes no request" : socket.why());
  HttpAnswerParser parser;
  FetchedAnswer answer;
  std::string block(kReadBytes, '\0');
  while (parser.state() == HttpAnswerParser::State::kReading) {
    io = socket.Read(block);
    if (io.kind == Io::Kind::kAgain && !WaitFor(socket.get(), POLLIN, deadline)) return failed("no answer in time");
    if (io.kind == Io::Kind::kError) return failed(socket.why());
    if (io.kind == Io::Kind::kEof) parser.FeedEnd();
    if (io.kind == Io::Kind::kDone) parser.Feed(std::string_view(block).substr(0, io.bytes), answer.body);
    if (answer.body.size() > kFetchBytesMax) return failed(fmt::format("its answer is longer than {} bytes", kFetchBytesMax));
  }
  if (parser.state() == HttpAnswerParser::State::kFailed) return failed(parser.reason());
  answer.status = parser.status();
  return answer;
}

Result<RunOutcome> RunLoad(const ClientOptions& options, const std::vector<LoadRequest>& requests, const Cancellation& cancellation,
                           const std::function<void(std::size_t done)>& progress) {
  RaiseDescriptorLimit();
  return LoadClient(options, requests).Run(cancellation, progress);
}

}  // namespace skein::app
