// SPDX-License-Identifier: Apache-2.0
//
// The figures of a run of `skein bench serve`: computed from the requests' outcomes, written with the keys of
// `vllm bench serve` as JSON, or as a table.
//
// ttft: to the first token. tpot: (end - first token) / (tokens - 1), of answers with two tokens or more. itl: between
// two events of a stream. e2el: to the last token. All from the moment the request is sent, in milliseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "base/status.h"
#include "bench_serve_events.h"

namespace skein::app {

struct Distribution {
  double mean = 0, median = 0, deviation = 0, p99 = 0;
};
// Percentiles lie between neighbours linearly; the deviation is that of all values, not an estimate. Zeros for none.
Distribution DistributionOf(std::vector<double> values);

// Upper bounds that a request must keep to count as good.
struct Goals {
  std::optional<double> ttft_ms, tpot_ms, e2el_ms;
  bool any() const { return ttft_ms || tpot_ms || e2el_ms; }
};
// From "ttft:200", "tpot:50", "e2el:4000", each text one or several with commas.
Result<Goals> ParseGoals(const std::vector<std::string>& texts);

struct RunFacts {  // what the run was
  std::string base_url, endpoint, model, dataset;
  double request_rate = 0;  // 0: inf
  double burstiness = 1;
  int max_concurrency = 0;  // 0: no limit
  std::uint64_t seed = 0;
  Goals goals;
};

struct Figures {
  RunFacts facts;
  double duration_s = 0;
  std::size_t completed = 0, failed = 0, good = 0, concurrent_peak = 0;
  std::int64_t input_tokens = 0, output_tokens = 0;
  Distribution ttft, tpot, itl, e2el;
  std::vector<std::pair<std::string, std::size_t>> failures;  // reasons, most frequent first, at most kReasonsMax

  static constexpr std::size_t kReasonsMax = 16;
};

Figures FiguresOf(RunFacts facts, const std::vector<RequestOutcome>& outcomes, double duration_s, std::size_t concurrent_peak);
std::string JsonOf(const Figures& figures, std::string_view build_commit);
std::string TableOf(const Figures& figures);

}  // namespace skein::app
