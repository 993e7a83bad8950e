// SPDX-License-Identifier: Apache-2.0
//
// Metrics counts what the server did and writes it as Prometheus text: under the names and with the buckets of vLLM's
// metrics, so that dashboards and autoscalers made for it work, and our own under skein_. What the engine counts comes
// from its EngineStats when somebody asks; nothing is counted on the engine thread.
//
// Owned by the I/O thread: plain numbers, no locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine_client.h"

namespace skein::server {

class Histogram {
 public:
  // `bounds`: upper ends of buckets, ascending; what they refer to outlives the histogram.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}
  // One that somebody else has counted. `counts`: of each bucket alone, one more than bounds.
  Histogram(std::span<const double> bounds, std::span<const std::uint64_t> counts, double sum)
      : bounds_(bounds), counts_(counts.begin(), counts.end()), sum_(sum) {}

  void Observe(double value);

  std::span<const double> bounds() const { return bounds_; }
  // How many values were at most bounds()[index]; of all for index == bounds().size().
  std::uint64_t CountUpTo(std::size_t index) const;
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;  // of each bucket alone
  double sum_ = 0;
};

// Numbers of the moment, that others keep.
struct ServerGauges {
  std::size_t requests_waiting = 0;  // in the server's own queue, being read or waiting to run
  std::size_t requests_running = 0;  // admitted, being answered
  std::size_t connections = 0;
  std::size_t streams = 0;
  std::size_t text_work_waiting = 0;
  std::uint64_t log_lines_lost = 0;  // since the start
  bool draining = false;
};

// A request that has been answered, or has been given up.
struct RequestFigures {
  std::string_view finished_reason;  // "stop", "length", "abort", "error"
  double queue_s = 0;                // from its arrival to its first step
  double prefill_s = 0;              // from its first step to its first token
  double decode_s = 0;               // from its first token to its last
  double total_s = 0;                // from its arrival
  std::int64_t prompt_tokens = 0;
  std::int64_t generated_tokens = 0;
  std::int64_t max_tokens = 0;
};

class Metrics {
 public:
  // `context`: the longest sequence, which bounds the buckets of token counts.
  Metrics(std::string model, std::int64_t context);

  void OnFirstToken(double since_arrival_s) { first_token_.Observe(since_arrival_s); }
  void OnNextToken(double since_last_s) { next_token_.Observe(since_last_s); }
  // Once for every choice of a request.
  void OnFinished(const RequestFigures& figures);
  // Once for every request that is admitted.
  void OnParameters(std::int64_t n);
  // Once for every HTTP answer of ours. `route` is one of the route table's.
  void OnHttp(std::string_view route, int status);
  void OnRefusedFull() { ++refused_full_; }
  void OnClientGone() { ++clients_gone_; }

  // The whole text, content type kContentType. `ranks` is empty where nothing is known of them.
  std::string Text(const engine::EngineStats& engine, const ServerGauges& gauges, std::span<const engine::RankStats> ranks = {}) const;
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  const std::string model_;
  const std::vector<double> token_bounds_;  // before the histograms that refer to it
  Histogram first_token_, next_token_, total_, queue_, inference_, prefill_, decode_;
  Histogram prompt_tokens_, generated_tokens_, n_, max_tokens_;
  std::map<std::string, std::uint64_t, std::less<>> finished_;
  std::map<std::pair<std::string, int>, std::uint64_t> http_;
  std::uint64_t refused_full_ = 0;
  std::uint64_t clients_gone_ = 0;
};

}  // namespace skein::server
