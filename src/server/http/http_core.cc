// SPDX-License-Identifier: Apache-2.0
#include "server/http/http_core.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "server/http/connection.h"

namespace skein::server {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr int kAcceptsPerTurn = 64;
// Descriptors that are not for connections: files, the engine's, and room to answer in.
constexpr std::size_t kDescriptorsKept = 64;
// What the kernel holds of our answers for a client that reads slowly, beside what we hold ourselves.
constexpr int kKernelSendBytes = 128 * 1024;
// A connection that has been idle, or sending its headers, for longer than this makes place for a new one when all
// places are taken.
constexpr std::chrono::seconds kGrace{1};
// Until the next try when there was no place or no descriptor for a connection.
constexpr std::chrono::milliseconds kAcceptPause{50};

std::size_t ConnectionsByDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 100'000;
  const auto descriptors = static_cast<std::size_t>(limit.rlim_cur);
  return descriptors > 2 * kDescriptorsKept ? descriptors - kDescriptorsKept
                                            : std::max<std::size_t>(4, descriptors / 2);
}

}  // namespace

std::string NameOf(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return fmt::format("{}:{}", endpoint.address().is_v6() ? "[" + address + "]" : address, endpoint.port());
}

HttpCore::HttpCore(HttpOptions options) : options_(std::move(options)) {
  connections_max_ = options_.limits.connections > 0 ? options_.limits.connections : ConnectionsByDescriptors();
  // Often enough for the shortest limit, which only tests make short.
  const HttpLimits& limits = options_.limits;
  for (const auto limit : {limits.header_time, limits.body_time, limits.idle_time, limits.stalled_time,
                           limits.ping_time, limits.linger_time}) {
    sweep_period_ = std::clamp(limit / 4, std::chrono::milliseconds(5), sweep_period_);
  }
}

Status HttpCore::Open(Router router) {
  ApiKeys keys;
  SKEIN_RETURN_IF_ERROR(ReadKeys(keys));
  if (options_.tls_cert.empty() != options_.tls_key.empty()) {
    return InvalidArgument("a certificate and its key come together; give both --tls-cert and --tls-key",
                           options_.tls_cert.empty() ? "tls_cert" : "tls_key");
  }
  if (!options_.tls_cert.empty()) {
    SKEIN_ASSIGN_OR_RETURN(tls_, LoadTlsContext(options_.tls_cert, options_.tls_key));
  }
  SKEIN_RETURN_IF_ERROR(CheckNames(options_.allowed_hosts, options_.allowed_origins));
  SKEIN_RETURN_IF_ERROR(Bind());
  if (!endpoint_.address().is_loopback() && keys.empty()) {
    Log(LogLevel::kWarning,
        fmt::format("listening on {} without API keys: whoever reaches it may use it", NameOf(endpoint_)));
  }
  HostPolicy hosts({.tls = tls(),
                    .address = endpoint_.address().to_string(),
                    .port = endpoint_.port(),
                    .hosts = options_.allowed_hosts,
                    .origins = options_.allowed_origins});
  gate_ = std::make_unique<Gate>(std::move(hosts), std::move(keys), std::move(router));
  return OkStatus();
}

Status HttpCore::ReadKeys(ApiKeys& keys) {
  if (!options_.api_key_file.empty()) {
    bool readable_by_others = false;
    SKEIN_ASSIGN_OR_RETURN(const std::string text, ApiKeys::ReadFile(options_.api_key_file, readable_by_others));
    if (readable_by_others) {
      Log(LogLevel::kWarning,
          fmt::format("other users can read the API keys in {}; chmod 600 it", options_.api_key_file));
    }
    SKEIN_RETURN_IF_ERROR(keys.Add(text, options_.api_key_file));
  }
  if (!options_.api_keys.empty()) SKEIN_RETURN_IF_ERROR(keys.Add(options_.api_keys, "the environment's API keys"));
  // They are digests now; the text need not stay in memory.
  options_.api_keys.clear();
  return OkStatus();
}

Status HttpCore::Bind() {
  if (options_.port < 0 || options_.port > 65535) {
    return InvalidArgument(fmt::format("expected a port from 0 to 65535, found {}", options_.port), "port");
  }
  error_code error;
  tcp::resolver resolver(io_);
  const auto found = resolver.resolve(options_.host, std::to_string(options_.port), tcp::resolver::passive, error);
  if (error || found.empty()) {
    return InvalidArgument(fmt::format("--host takes an address of this machine such as 127.0.0.1 (programs of this machine "
                                       "only) or 0.0.0.0 (all networks), found '{}'", options_.host), "host");
  }
  const tcp::endpoint wanted = found.begin()->endpoint();
  acceptor_.open(wanted.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(wanted, error);
  if (!error) acceptor_.listen(boost::asio::socket_base::max_listen_connections, error);
  if (!error) acceptor_.non_blocking(true, error);
  if (!error) endpoint_ = acceptor_.local_endpoint(error);
  if (error) {
    const bool taken = error == boost::asio::error::address_in_use;
    return Status(Code::kUnavailable,
                  fmt::format("cannot listen on {}: {}{}", NameOf(wanted), error.message(),
                              taken                                              ? "; choose another --port, or 0 for a free one"
                              : error == boost::asio::error::access_denied ? "; choose a --port from 1024"
                              : error == boost::system::errc::address_not_available
                                  ? "; --host is an address of this machine, or 0.0.0.0 for all of them"
                                  : ""),
                  "port");
  }
  return OkStatus();
}

void HttpCore::Start() {
  WaitForConnections();
  Sweep();
}

void HttpCore::Run() {
  while (!io_.stopped()) {
    try {
      io_.run();
    } catch (const std::exception&) {
      // Memory ran out in a handler: what it was doing is lost, the server is not.
      Log(LogLevel::kError, "the I/O thread met an exception and goes on");
    }
  }
}

void HttpCore::Post(std::function<void()> function) { boost::asio::post(io_, std::move(function)); }

Timer HttpCore::After(std::chrono::nanoseconds delay, std::function<void()> function) {
  auto timer = std::make_shared<boost::asio::steady_timer>(io_, delay);
  // What waits does not own the timer, so that letting go of it ends the wait. The wait may be over by then, with its
  // call still in the loop's queue: a call whose timer has gone is not made.
  timer->async_wait([alive = std::weak_ptr<void>(timer), function = std::move(function)](const error_code& error) {
    if (!error && !alive.expired()) function();
  });
  return timer;
}

void HttpCore::StopAccepting() {
  stopping_ = true;
  for (const auto& connection : all_) connection->CloseIfIdle();
}

void HttpCore::WhenAnswered(std::function<void()> told) {
  answered_ = std::move(told);
  OnAnswered();
}

void HttpCore::OnAnswered() {
  if (!answered_) return;
  for (const auto& connection : all_) {
    if (connection->answering()) return;
  }
  Post(std::exchange(answered_, nullptr));
}

void HttpCore::CloseAll() {
  stopping_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  for (const auto& connection : all_) connection->Close();
  // What the closing has posted still runs.
  Post([this] { io_.stop(); });
}

void HttpCore::Log(LogLevel level, std::string_view text) const {
  if (options_.log) options_.log(level, text);
}

void HttpCore::QueueFlush(std::shared_ptr<Connection> connection) {
  if (to_flush_.empty()) Post([this] { FlushQueued(); });
  to_flush_.push_back(std::move(connection));
}

void HttpCore::FlushQueued() {
  flushing_.swap(to_flush_);  // what these flushes queue is the next turn's
  for (const auto& connection : flushing_) connection->Flush();
  flushing_.clear();
}

void HttpCore::Remove(ConnectionList::iterator place) {
  all_.erase(place);
  connections.store(all_.size());
}

void HttpCore::WaitForConnections() {
  acceptor_.async_wait(tcp::acceptor::wait_read, [this](const error_code& error) {
    if (!error && acceptor_.is_open()) AcceptSome();
  });
}

void HttpCore::AcceptSome() {
  for (int k = 0; k < kAcceptsPerTurn; ++k) {
    if (all_.size() >= connections_max_) {
      if (!SomebodyWaits()) return WaitForConnections();
      if (!MakePlace()) return PauseAccepting();
      // The closed one leaves the list first.
      return Post([this] {
        if (acceptor_.is_open()) AcceptSome();
      });
    }
    if (!AcceptOne()) return;
  }
  Post([this] {
    if (acceptor_.is_open()) WaitForConnections();
  });
}

bool HttpCore::AcceptOne() {
  error_code error;
  tcp::endpoint peer;
  tcp::socket socket(io_);
  acceptor_.accept(socket, peer, error);
  if (error == boost::asio::error::would_block || error == boost::asio::error::try_again) {
    WaitForConnections();
    return false;
  }
  if (error == boost::asio::error::no_descriptors || error.value() == ENFILE || error.value() == ENOBUFS ||
      error.value() == ENOMEM) {
    // The kernel looks for a descriptor before it looks for a client.
    if (!SomebodyWaits()) {
      WaitForConnections();
      return false;
    }
    if (!std::exchange(out_of_descriptors_, true)) {
      Log(LogLevel::kError, fmt::format("cannot take a connection: {}; new ones wait", error.message()));
    }
    MakePlace();
    PauseAccepting();
    return false;
  }
  if (error) return acceptor_.is_open();  // that client has gone already
  out_of_descriptors_ = false;
  socket.non_blocking(true, error);
  if (!error) socket.set_option(tcp::no_delay(true), error);
  if (!error) socket.set_option(boost::asio::socket_base::send_buffer_size(kKernelSendBytes), error);
  if (error) return true;
  auto connection = std::make_shared<Connection>(*this, std::move(socket), NameOf(peer));
  all_.push_back(connection);
  connections.store(all_.size());
  connection->Start(tls_.get(), std::prev(all_.end()));
  return true;
}

bool HttpCore::SomebodyWaits() {
  pollfd waiting{.fd = acceptor_.native_handle(), .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 0) > 0;
}

// Closes the connection that has been idle for longest, or else the one that has sent its headers for longest. Not one
// that has only just come: its request may be on its way.
bool HttpCore::MakePlace() {
  const auto since = std::chrono::steady_clock::now() - kGrace;
  Connection* idle = nullptr;
  Connection* slow = nullptr;
  for (const auto& connection : all_) {
    if (connection->since() > since) continue;
    if (connection->idle() && (idle == nullptr || connection->since() < idle->since())) idle = connection.get();
    if (connection->reading_head() && (slow == nullptr || connection->since() < slow->since())) slow = connection.get();
  }
  Connection* victim = idle != nullptr ? idle : slow;
  if (victim != nullptr) victim->Close();
  return victim != nullptr;
}

void HttpCore::PauseAccepting() {
  accept_timer_.expires_after(kAcceptPause);
  accept_timer_.async_wait([this](const error_code& error) {
    if (!error && acceptor_.is_open()) AcceptSome();
  });
}

void HttpCore::Sweep() {
  const auto now = std::chrono::steady_clock::now();
  for (const auto& connection : all_) connection->Sweep(now);
  sweep_timer_.expires_after(sweep_period_);
  sweep_timer_.async_wait([this](const error_code& error) {
    if (!error) Sweep();
  });
}

}  // namespace skein::server
