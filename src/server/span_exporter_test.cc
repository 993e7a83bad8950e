// SPDX-License-Identifier: Apache-2.0
//
// If these fail, operators' traces lack requests, or a collector that is away slows or ends the server.
#include "server/span_exporter.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>

#include <boost/json.hpp>

namespace skein::server {
namespace {

constexpr char kTraceparent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

// Takes one request and answers it.
class Collector {
 public:
  Collector() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
    socklen_t size = sizeof address;
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~Collector() { ::close(socket_); }
  int port() const { return port_; }

  std::string Take(std::string_view answer) const {
    const int connection = ::accept(socket_, nullptr, nullptr);
    std::string text;
    std::size_t wanted = std::string::npos;
    while (text.size() < wanted) {
      char block[4096];
      const ssize_t count = ::recv(connection, block, sizeof block, 0);
      if (count <= 0) break;
      text.append(block, static_cast<std::size_t>(count));
      const std::size_t end = text.find("\r\n\r\n"), length = text.find("Content-Length: ");
      if (end != std::string::npos && length != std::string::npos) {
        wanted = end + 4 + std::stoul(text.substr(length + 16));
      }
    }
    ::send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
    ::close(connection);
    return text;
  }

 private:
  int socket_;
  int port_ = 0;
};

Span SomeSpan() {
  return {.name = "chat default",
          .traceparent = kTraceparent,
          .begin_unix_ns = 1'700'000'000'000'000'001,
          .end_unix_ns = 1'700'000'000'500'000'000,
          .attributes = {{"gen_ai.operation.name", std::string("chat")}, {"gen_ai.usage.output_tokens", std::int64_t{7}}},
          .error = ""};
}

TEST(SpanExporter, SendsSpansAsTheProtocolHasThem) {
  Collector collector;
  auto exporter = SpanExporter::Create({.endpoint = "http://127.0.0.1:" + std::to_string(collector.port())});
  ASSERT_TRUE(exporter.ok());
  (*exporter)->Add(SomeSpan());
  const std::string request = collector.Take("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(request.starts_with("POST /v1/traces HTTP/1.1\r\n"));
  const boost::json::value body = boost::json::parse(request.substr(request.find("\r\n\r\n") + 4));
  const auto& span = body.at_pointer("/resourceSpans/0/scopeSpans/0/spans/0").as_object();
  EXPECT_EQ(span.at("traceId").as_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(span.at("parentSpanId").as_string(), "00f067aa0ba902b7");
  EXPECT_EQ(span.at("spanId").as_string().size(), 16u);
  EXPECT_EQ(span.at("startTimeUnixNano").as_string(), "1700000000000000001");
  EXPECT_EQ(body.at_pointer("/resourceSpans/0/scopeSpans/0/spans/0/attributes/1/value/intValue").as_string(), "7");
  EXPECT_EQ(body.at_pointer("/resourceSpans/0/resource/attributes/0/value/stringValue").as_string(), "skein");
  exporter->reset();
}

TEST(SpanExporter, ACollectorThatIsAwayCostsSpansOnly) {
  int port = 0;
  { port = Collector().port(); }
  auto exporter = SpanExporter::Create({.endpoint = "http://127.0.0.1:" + std::to_string(port), .queue = 4});
  ASSERT_TRUE(exporter.ok());
  for (int i = 0; i < 100; ++i) (*exporter)->Add(SomeSpan());
  EXPECT_GE((*exporter)->dropped(), 96u - 4u);
  exporter->reset();  // must not wait for ever
}

TEST(SpanExporter, ARefusedBatchIsCounted) {
  Collector collector;
  auto exporter = SpanExporter::Create({.endpoint = "http://localhost:" + std::to_string(collector.port()) + "/otlp"});
  ASSERT_TRUE(exporter.ok());
  (*exporter)->Add(SomeSpan());
  EXPECT_TRUE(collector.Take("HTTP/1.1 503 Busy\r\n\r\n").starts_with("POST /otlp HTTP/1.1\r\n"));
  while ((*exporter)->dropped() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ((*exporter)->dropped(), 1u);
}

TEST(SpanExporter, WhoAsksNotToBeRecordedIsNot) {
  int port = 0;
  { port = Collector().port(); }
  auto exporter = SpanExporter::Create({.endpoint = "http://127.0.0.1:" + std::to_string(port), .queue = 1});
  ASSERT_TRUE(exporter.ok());
  Span span = SomeSpan();
  span.traceparent.back() = '0';
  for (int i = 0; i < 10; ++i) (*exporter)->Add(span);
  EXPECT_EQ((*exporter)->dropped(), 0u);
}

TEST(SpanExporter, EndpointsThatAreNoneAreRefusedByName) {
  for (const char* endpoint : {"", "localhost:4318", "https://host", "http://", "http://host:port", "http://host:999999", "http://a b"}) {
    const auto exporter = SpanExporter::Create({.endpoint = endpoint});
    ASSERT_FALSE(exporter.ok()) << endpoint;
    EXPECT_EQ(exporter.status().field(), "otlp-endpoint");
  }
}

}  // namespace
}  // namespace skein::server
