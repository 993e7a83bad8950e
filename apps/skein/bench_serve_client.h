// SPDX-License-Identifier: Apache-2.0
//
// The load client of `skein bench serve`: one thread, non-blocking sockets, epoll, thousands of streams at once. Connections
// are kept and used again, as official clients do. No server can make it hang (every request has a time limit) or grow
// without end (every part of an answer is bounded); what goes wrong is the outcome of that request.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bench_serve_events.h"
#include "bench_serve_target.h"
#include "bench_serve_workload.h"
#include "skein/engine.h"

namespace skein::app {

struct ClientOptions {
  Target target;
  SSL_CTX* tls = nullptr;              // for a secure target; outlives the load
  std::string path;                    // of the endpoint
  std::string api_key;                 // empty: none
  std::chrono::nanoseconds timeout{};  // of one request, from its start to its end
  std::size_t max_concurrency = 0;     // requests at once; 0: no limit
};

// One whole answer to GET `path`, at most kFetchBytesMax. Errors: kUnavailable.
struct FetchedAnswer {
  int status = 0;
  std::string body;
};
Result<FetchedAnswer> Fetch(const ClientOptions& options, std::string_view path);
inline constexpr std::size_t kFetchBytesMax = 1 << 20;

struct RunOutcome {
  std::vector<RequestOutcome> requests;  // in the order of the workload
  double duration_s = 0;                 // from the start to the last end
  std::size_t concurrent_peak = 0;
};
// Sends every request at its arrival time, or later while max_concurrency are under way. `progress` is called now and
// then. Errors: kCancelled, kMissing (no epoll).
Result<RunOutcome> RunLoad(const ClientOptions& options, const std::vector<LoadRequest>& requests, const Cancellation& cancellation,
                           const std::function<void(std::size_t done)>& progress);

}  // namespace skein::app
