// SPDX-License-Identifier: Apache-2.0
#include "server/span_exporter.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <random>

#include <boost/json.hpp>

#include "server/http/request_id.h"

namespace skein::server {
namespace {

constexpr std::size_t kBatch = 256;
constexpr std::chrono::milliseconds kGather{500};  // how long spans wait for company
constexpr int kPatienceMs = 2000;

// A traceparent is 00-<32 digits of the trace>-<16 of the parent>-<2 of flags>.
std::string_view TraceOf(std::string_view traceparent) { return traceparent.substr(3, 32); }
std::string_view ParentOf(std::string_view traceparent) { return traceparent.substr(36, 16); }
bool IsSampled(std::string_view traceparent) { return ((traceparent[54] - '0') & 1) != 0 || traceparent[54] >= 'a'; }

boost::json::object ValueAsJson(const SpanValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return {{"stringValue", *text}};
  // 64-bit integers are strings in protobuf's JSON.
  if (const auto* number = std::get_if<std::int64_t>(&value)) return {{"intValue", std::to_string(*number)}};
  return {{"doubleValue", std::get<double>(value)}};
}

boost::json::object SpanAsJson(const Span& span) {
  const std::string id = NewRequestId();
  boost::json::array attributes;
  for (const auto& [key, value] : span.attributes) attributes.push_back({{"key", key}, {"value", ValueAsJson(value)}});
  boost::json::object object{
      {"traceId", span.traceparent.empty() ? NewRequestId() : std::string(TraceOf(span.traceparent))},
      {"spanId", id.substr(0, 16)},
      {"name", span.name},
      {"kind", 2},  // SPAN_KIND_SERVER
      {"startTimeUnixNano", std::to_string(span.begin_unix_ns)},
      {"endTimeUnixNano", std::to_string(span.end_unix_ns)},
      {"attributes", std::move(attributes)},
  };
  if (!span.traceparent.empty()) object["parentSpanId"] = std::string(ParentOf(span.traceparent));
  // STATUS_CODE_ERROR; without an error the status stays unset, as servers shall leave it.
  object["status"] = span.error.empty() ? boost::json::object{} : boost::json::object{{"code", 2}, {"message", span.error}};
  return object;
}

// A socket with a deadline for everything that is done with it.
class Connection {
 public:
  Connection() : deadline_(std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs)) {}
  ~Connection() {
    if (socket_ >= 0) ::close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool Open(const std::string& host, const std::string& port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return false;
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
      if (socket_ >= 0) ::close(socket_);
      socket_ = ::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, each->ai_protocol);
      if (socket_ < 0) continue;
      if (::connect(socket_, each->ai_addr, each->ai_addrlen) == 0) return true;
      if (errno != EINPROGRESS || !Wait(POLLOUT)) continue;
      int error = 0;
      socklen_t size = sizeof error;
      if (::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) return true;
    }
    return false;
  }
  bool Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(count));
      } else if (errno != EINTR && !((errno == EAGAIN) && Wait(POLLOUT))) {
        return false;
      }
    }
    return true;
  }
  // The answer's first bytes, enough for its status.
  std::string ReadStatus() {
    std::string text;
    while (text.size() < 12) {
      char block[256];
      const ssize_t count = ::recv(socket_, block, sizeof block, 0);
      if (count > 0) {
        text.append(block, static_cast<std::size_t>(count));
      } else if (count == 0 || (errno != EINTR && !(errno == EAGAIN && Wait(POLLIN)))) {
        break;
      }
    }
    return text.substr(0, 12);
  }

 private:
  bool Wait(short events) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
    pollfd one{socket_, events, 0};
    return left.count() > 0 && ::poll(&one, 1, static_cast<int>(left.count())) == 1;
  }

  const std::chrono::steady_clock::time_point deadline_;
  int socket_ = -1;
};

}  // namespace

std::string SpansAsJson(const std::vector<Span>& spans, std::string_view service) {
  boost::json::array all;
  for (const Span& span : spans) all.push_back(SpanAsJson(span));
  const auto named = [](std::string_view key, std::string_view value) {
    return boost::json::object{{"key", key}, {"value", {{"stringValue", value}}}};
  };
  const boost::json::object body{
      {"resourceSpans",
       boost::json::array{boost::json::object{
           {"resource", {{"attributes", boost::json::array{named("service.name", service)}}}},
           {"scopeSpans", boost::json::array{boost::json::object{{"scope", {{"name", "skein"}}}, {"spans", std::move(all)}}}}}}}};
  return boost::json::serialize(body);
}

Result<std::unique_ptr<SpanExporter>> SpanExporter::Create(SpanExporterOptions options) {
  const auto wrong = [&] {
    return InvalidArgument(
        fmt::format("otlp-endpoint is http://HOST:PORT of a collector of traces, found '{}'", options.endpoint), "otlp-endpoint");
  };
  std::string_view rest = options.endpoint;
  constexpr std::string_view kScheme = "http://";
  if (!rest.starts_with(kScheme)) return wrong();
  rest.remove_prefix(kScheme.size());
  Endpoint endpoint{.host = "", .port = "4318", .path = "/v1/traces"};
  if (const std::size_t slash = rest.find('/'); slash != std::string_view::npos) {
    if (rest.size() > slash + 1) endpoint.path = rest.substr(slash);
    rest = rest.substr(0, slash);
  }
  const std::size_t bracket = rest.rfind(']');
  const std::size_t colon = rest.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    endpoint.port = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  endpoint.host = rest;
  const auto is_plain = [](std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
  };
  const bool digits = std::all_of(endpoint.port.begin(), endpoint.port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_plain(endpoint.host) || !is_plain(endpoint.path) || !digits || endpoint.port.empty() || endpoint.port.size() > 5) {
    return wrong();
  }
  return std::unique_ptr<SpanExporter>(new SpanExporter(std::move(options), std::move(endpoint)));
}

SpanExporter::SpanExporter(SpanExporterOptions options, Endpoint endpoint)
    : options_(std::move(options)), endpoint_(std::move(endpoint)), thread_([this] { Run(); }) {}

SpanExporter::~SpanExporter() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  work_.notify_one();
  thread_.join();
}

void SpanExporter::Add(Span span) {
  if (!span.traceparent.empty() && (!IsTraceparent(span.traceparent) || !IsSampled(span.traceparent))) return;
  bool full = false;
  {
    const std::lock_guard lock(mutex_);
    full = waiting_.size() >= options_.queue;
    if (full) {
      ++dropped_;
    } else {
      waiting_.push_back(std::move(span));
    }
  }
  if (!full) work_.notify_one();
}

std::uint64_t SpanExporter::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void SpanExporter::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (!ending_) work_.wait_for(lock, kGather, [this] { return ending_ || waiting_.size() >= kBatch; });
    const bool last = ending_;
    std::vector<Span> batch;
    while (!waiting_.empty() && batch.size() < kBatch) {
      batch.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    lock.unlock();
    const bool sent = batch.empty() || Send(batch);
    lock.lock();
    if (!sent) dropped_ += batch.size();
    // At the end a collector that does not answer is not asked again.
    if (last && (!sent || waiting_.empty())) return;
  }
}

bool SpanExporter::Send(const std::vector<Span>& spans) const {
  const std::string body = SpansAsJson(spans, options_.service);
  const bool six = endpoint_.host.find(':') != std::string::npos;
  const std::string head = fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}{}{}:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
      endpoint_.path, six ? "[" : "", endpoint_.host, six ? "]" : "", endpoint_.port, body.size());
  Connection connection;
  return connection.Open(endpoint_.host, endpoint_.port) && connection.Write(head) && connection.Write(body) &&
         connection.ReadStatus().substr(0, 10).ends_with(" 2");
}

}  // namespace skein::server
