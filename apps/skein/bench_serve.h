// SPDX-License-Identifier: Apache-2.0
//
// Options of `skein bench serve`, under the names of `vllm bench serve`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "common_options.h"
#include "context.h"

namespace skein::app {

struct BenchServeOptions {
  std::string base_url = "http://127.0.0.1:8000", endpoint = "/v1/completions", model, api_key_file, ca_file;
  std::string dataset = "random", request_rate = "inf", save_result;
  int num_prompts = 0, random_input_len = 1024, random_output_len = 128, random_prefix_len = -1, vocab = 48'000;
  int max_concurrency = 0, num_warmups = 0;
  float random_range_ratio = 0, burstiness = 1, temperature = 0, timeout = 600;
  std::uint64_t seed = 0;
  bool ignore_eos = false, insecure = false;
  std::vector<std::string> goodput;
  std::string second_goal, third_goal;  // `--goodput ttft:200 tpot:50 e2el:4000`, as vllm's flag takes them
  OutputOptions output;
  void Describe(FieldList& fields);
};
Status RunBenchServe(const BenchServeOptions& options, Context& context);

// The first key of a file such as the server's (`#` begins a comment), or OPENAI_API_KEY, or nothing.
Result<std::string> ApiKey(const std::string& path);

}  // namespace skein::app
