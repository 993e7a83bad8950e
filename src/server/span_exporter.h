// SPDX-License-Identifier: Apache-2.0
//
// SpanExporter sends one span for every request to a collector of traces: OTLP over HTTP with JSON bodies (OpenTelemetry
// Protocol 1.x, POST /v1/traces), attributes named as in the GenAI semantic conventions. Off unless an endpoint is given. A
// collector that is slow or away costs spans, counted, and nothing else: spans wait in a bounded queue.
//
// Thread rule: Add and dropped by any thread. Sending happens on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace skein::server {

using SpanValue = std::variant<std::string, std::int64_t, double>;

struct Span {
  std::string name;
  std::string traceparent;         // the client's; a new trace begins where it is empty
  std::int64_t begin_unix_ns = 0;
  std::int64_t end_unix_ns = 0;
  std::vector<std::pair<std::string, SpanValue>> attributes;
  std::string error;               // not empty: the request failed
};

struct SpanExporterOptions {
  std::string endpoint;  // "http://HOST:PORT", to which /v1/traces is added unless a path is given
  std::string service = "skein";
  std::size_t queue = 2048;
};

class SpanExporter {
 public:
  // Errors: kInvalidArgument for an endpoint that is no http URL.
  static Result<std::unique_ptr<SpanExporter>> Create(SpanExporterOptions options);
  // Sends what waits, for two seconds at most.
  ~SpanExporter();

  // Takes a span unless its client asked not to record it (traceparent's flag) or the queue is full.
  void Add(Span span);
  std::uint64_t dropped() const;

 private:
  struct Endpoint {
    std::string host, port, path;
  };

  SpanExporter(SpanExporterOptions options, Endpoint endpoint);
  void Run();
  bool Send(const std::vector<Span>& spans) const;

  const SpanExporterOptions options_;
  const Endpoint endpoint_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::deque<Span> waiting_;   // under mutex_
  std::uint64_t dropped_ = 0;  // under mutex_
  bool ending_ = false;        // under mutex_
  std::thread thread_;         // last: it uses all of the above
};

// The body of an export request (ExportTraceServiceRequest in JSON).
std::string SpansAsJson(const std::vector<Span>& spans, std::string_view service);

}  // namespace skein::server
