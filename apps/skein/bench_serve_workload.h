// SPDX-License-Identifier: Apache-2.0
//
// The requests of `skein bench serve` and when they are sent: made from a seed before anything is measured, so that the
// same flags send the same bytes at the same times.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace skein::app {

struct WorkloadOptions {
  std::string dataset = "random";  // random, shared-prefix, trace:FILE
  std::string model;
  bool chat = false;  // messages of words in place of token ids
  int num_prompts = 0;  // 0: kNumPrompts, or all of a trace
  int input_tokens = 1024, output_tokens = 128;
  int prefix_tokens = -1;  // the same for all prompts, before input_tokens; -1: by dataset
  double range_ratio = 0;  // lengths are drawn from length × (1 ± ratio)
  int vocabulary = 48'000;  // ids are below it
  std::uint64_t seed = 0;
  double request_rate = 0;  // requests a second; 0: all at once
  double burstiness = 1;    // shape of the gamma distribution of gaps; 1: Poisson arrivals
  double temperature = 0;
  bool ignore_eos = false;

  static constexpr int kNumPrompts = 1000;
  static constexpr int kSharedPrefixTokens = 1024;
};

struct LoadRequest {
  double arrival_s = 0;  // after the start of the run
  std::int64_t input_tokens = 0;  // as far as the client knows; a server's usage says better
  std::string body;
};

// Requests in order of arrival. Errors: kInvalidArgument for a flag or a file that cannot be used, kInvalidFile for a line
// of a trace, kLimit when the bodies need more than kBodyBytesMax.
//
// Lines of a trace are {"timestamp_ms", "input_length", "output_length"} or {"timestamp_ms", "prompt", "max_tokens"};
// without a timestamp on the first line, arrivals come from request_rate.
Result<std::vector<LoadRequest>> MakeWorkload(const WorkloadOptions& options);
inline constexpr std::uint64_t kBodyBytesMax = std::uint64_t{2} << 30;

// Arrival times of `count` requests: gaps of a gamma distribution with mean 1 / rate, scaled so that the last comes at
// count / rate. All 0 for a rate of 0.
std::vector<double> ArrivalTimes(std::size_t count, double rate, double burstiness, std::uint64_t seed);

}  // namespace skein::app
