// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace skein::server {
namespace {

TEST(Histogram, CountsUpToEachBound) {
  // Quantiles on dashboards would be wrong.
  constexpr double kBounds[] = {1, 2, 5};
  Histogram histogram(kBounds);
  for (const double value : {0.5, 1.0, 1.5, 5.0, 7.0}) histogram.Observe(value);
  EXPECT_EQ(histogram.CountUpTo(0), 2u) << "a bound belongs to its bucket";
  EXPECT_EQ(histogram.CountUpTo(1), 3u);
  EXPECT_EQ(histogram.CountUpTo(2), 4u);
  EXPECT_EQ(histogram.CountUpTo(3), 5u);
  EXPECT_DOUBLE_EQ(histogram.sum(), 15.0);
}

TEST(Metrics, EverySeriesBelongsToOneFamilyThatIsSaid) {
  // Prometheus refuses a page with a family that appears twice, or a series without its type.
  Metrics metrics("a\"model", 4096);
  metrics.OnFirstToken(0.02);
  metrics.OnHttp("/v1/models", 200);
  metrics.OnFinished({.finished_reason = "stop", .total_s = 1, .prompt_tokens = 3, .generated_tokens = 2, .max_tokens = 9});
  std::istringstream page(metrics.Text({}, {}));
  std::set<std::string> families;
  std::string current;
  for (std::string line; std::getline(page, line);) {
    std::istringstream words(line);
    std::string first, second, name;
    words >> first >> second >> name;
    if (first == "#") {
      if (second == "HELP") {
        EXPECT_TRUE(families.insert(name).second) << name;
        current = name;
      }
      continue;
    }
    EXPECT_TRUE(first.starts_with(current)) << line;
    EXPECT_TRUE(line.find("a\\\"model") != std::string::npos || line.starts_with("skein_")) << line;
  }
}

TEST(Metrics, EveryRankHasItsSeries) {
  // A rank that makes the others wait could not be found.
  engine::RankStats rank{.rank = 1, .pipe = 0, .tensor = 1, .layers = {0, 30}, .heads = {5, 9}};
  rank.load = {.steps = 3, .busy_ns = 2'000'000'000, .waiting_ns = 500'000'000, .recent_share = 0.25};
  rank.losses = 2;
  const std::string page = Metrics("m", 4096).Text({.communication_ns = 1'500'000'000}, {}, std::span(&rank, 1));
  for (const char* line : {
           "skein_rank_info{rank=\"1\",pipe=\"0\",tensor=\"1\",layers=\"0-29\",heads=\"5-8\",columns=\"none\",vocabulary=\"none\"} 1.0\n",
           "skein_rank_busy_seconds_total{rank=\"1\"} 2.0\n",
           "skein_rank_waiting_seconds_total{rank=\"1\"} 0.5\n",
           "skein_rank_communication_share{rank=\"1\"} 0.25\n",
           "skein_rank_restarts_total{rank=\"1\"} 2.0\n",
           "skein_engine_communication_seconds_total 1.5\n",
       }) {
    EXPECT_NE(page.find(line), std::string::npos) << line;
  }
  EXPECT_EQ(Metrics("m", 4096).Text({}, {}).find("skein_rank_"), std::string::npos) << "nothing is known of ranks";
}

TEST(Metrics, NamesAndBucketsAreThoseOfVllm) {
  // Dashboards and autoscalers find their series by name and by the text of `le`.
  Metrics metrics("m", 4096);
  metrics.OnFirstToken(0.02);
  metrics.OnFinished({.finished_reason = "length", .generated_tokens = 2});
  const std::string page = metrics.Text({.prompt_tokens = 600, .generated_tokens = 7, .step_tokens = {6, 0, 0, 0, 0, 0, 0, 1, 1},
                                         .running = 2, .blocks_total = 4, .blocks_held = 1}, {});
  for (const char* line : {
           "# TYPE vllm:num_requests_running gauge\n",
           "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 2.0\n",
           "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.25\n",
           "vllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} 7.0\n",
           "# TYPE vllm:iteration_tokens_total histogram\n",
           "vllm:iteration_tokens_total_bucket{le=\"1.0\",engine=\"0\",model_name=\"m\"} 6.0\n",
           "vllm:iteration_tokens_total_bucket{le=\"512.0\",engine=\"0\",model_name=\"m\"} 7.0\n",
           "vllm:iteration_tokens_total_bucket{le=\"16384.0\",engine=\"0\",model_name=\"m\"} 8.0\n",
           "vllm:iteration_tokens_total_sum{engine=\"0\",model_name=\"m\"} 607.0\n",
           "vllm:iteration_tokens_total_count{engine=\"0\",model_name=\"m\"} 8.0\n",
           "vllm:request_success_total{finished_reason=\"length\",engine=\"0\",model_name=\"m\"} 1.0\n",
           "vllm:time_to_first_token_seconds_bucket{le=\"0.01\",engine=\"0\",model_name=\"m\"} 0.0\n",
           "vllm:time_to_first_token_seconds_bucket{le=\"0.02\",engine=\"0\",model_name=\"m\"} 1.0\n",
           "vllm:time_to_first_token_seconds_bucket{le=\"2560.0\",engine=\"0\",model_name=\"m\"} 1.0\n",
           "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\",engine=\"0\",model_name=\"m\"} 1.0\n",
           "vllm:request_prompt_tokens_bucket{le=\"2000.0\",engine=\"0\",model_name=\"m\"} 1.0\n",
       }) {
    EXPECT_NE(page.find(line), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace skein::server
