// SPDX-License-Identifier: Apache-2.0
//
// skein bench serve: sends a load to any server that speaks OpenAI's API, and reports what clients would have felt.
#include "bench_serve.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/value.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/output_file.h"
#include "bench_serve_client.h"
#include "bench_serve_figures.h"
#include "bench_serve_workload.h"
#include "help.h"
#include "interrupt.h"
#include "jsonl.h"
#include "progress.h"

namespace skein::app {
namespace {

constexpr std::uint64_t kKeyFileBytesMax = 64 << 10;
constexpr std::chrono::seconds kFetchTimeout{20};
constexpr std::string_view kChatPath = "/chat/completions", kCompletionPath = "/completions";

// Requests a second, 0 for inf.
Result<double> RateOf(const std::string& text) {
  if (text == "inf") return 0.0;
  double rate = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  if (error != std::errc() || end != text.data() + text.size() || !(rate > 0 && rate <= 1e6)) {
    return InvalidArgument(fmt::format("--request-rate takes a number above 0 or inf, found '{}'", text.substr(0, 40)), "--request-rate");
  }
  return rate;
}

Result<std::string> ServedModel(const ClientOptions& client) {
  ClientOptions asking = client;
  asking.timeout = std::min<std::chrono::nanoseconds>(client.timeout, kFetchTimeout);
  SKEIN_ASSIGN_OR_RETURN(const FetchedAnswer answer, Fetch(asking, "/v1/models"));
  if (answer.status == 200) {
    const Result<boost::json::value> list = ParseJson(answer.body, "/v1/models");
    const boost::json::value* data = list.ok() && list->is_object() ? list->get_object().if_contains("data") : nullptr;
    if (data != nullptr && data->is_array() && !data->get_array().empty() && data->get_array().front().is_object()) {
      const boost::json::value* id = data->get_array().front().get_object().if_contains("id");
      if (id != nullptr && id->is_string()) return std::string(id->get_string());
    }
  }
  return Status(Code::kUnavailable, fmt::format("/v1/models is expected to list a model, found status {} ({}); give --model",
                                                answer.status, ErrorText(answer.body)), "--model");
}

WorkloadOptions WorkloadOf(const BenchServeOptions& options, std::string model, double rate) {
  WorkloadOptions workload;
  workload.dataset = options.dataset;
  workload.model = std::move(model);
  workload.chat = options.endpoint.ends_with(kChatPath);
  workload.num_prompts = options.num_prompts;
  workload.input_tokens = options.random_input_len;
  workload.output_tokens = options.random_output_len;
  workload.prefix_tokens = options.random_prefix_len;
  workload.range_ratio = static_cast<double>(options.random_range_ratio);
  workload.vocabulary = options.vocab;
  workload.seed = options.seed;
  workload.request_rate = rate;
  workload.burstiness = static_cast<double>(options.burstiness);
  workload.temperature = static_cast<double>(options.temperature);
  workload.ignore_eos = options.ignore_eos;
  return workload;
}

// Sends a few requests that nothing is said of, so that the server has touched its memory.
Status WarmUp(const BenchServeOptions& options, const ClientOptions& client, WorkloadOptions workload, const Cancellation& cancellation) {
  if (options.num_warmups == 0) return OkStatus();
  workload.num_prompts = options.num_warmups;
  workload.seed = ~options.seed;  // other prompts: none of the run's may lie in a prefix cache
  workload.request_rate = 0;
  SKEIN_ASSIGN_OR_RETURN(const std::vector<LoadRequest> requests, MakeWorkload(workload));
  return RunLoad(client, requests, cancellation, [](std::size_t) {}).status();
}

}  // namespace

Result<std::string> ApiKey(const std::string& path) {
  std::string text;
  if (path.empty()) {
    if (const char* key = std::getenv("OPENAI_API_KEY")) text = key;
  } else {
    SKEIN_ASSIGN_OR_RETURN(text, ReadTextFile(path, "--api-key-file", kKeyFileBytesMax));
  }
  std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  while (begin < text.size() && text[begin] == '#') {
    begin = std::min(text.find_first_not_of(" \t\r\n", std::min(text.find('\n', begin), text.size())), text.size());
  }
  const std::string key = text.substr(begin, std::min(text.find_first_of(" \t\r\n", begin), text.size()) - begin);
  const bool visible = std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!visible || (key.empty() && !path.empty())) {
    return InvalidArgument("a key is expected to be a word of visible ASCII characters; see --api-key-file and OPENAI_API_KEY", "--api-key-file");
  }
  return key;
}

void BenchServeOptions::Describe(FieldList& fields) {
  fields.AddPositional("GOAL", &second_goal, false, "a second goal of --goodput");
  fields.AddPositional("GOAL3", &third_goal, false, "a third one");
  fields.Group("Server");
  fields.Add("base-url", "URL", &base_url, "the server, without /v1").FlagOnly();
  fields.Add("endpoint", "PATH", &endpoint, "one that ends in /completions or /chat/completions").FlagOnly();
  fields.Add("model", "NAME", &model, "the model asked for [the first that the server lists]").FlagOnly();
  fields.Add("api-key-file", "FILE", &api_key_file, "its first key is sent; also OPENAI_API_KEY").FlagOnly();
  fields.Add("ca-file", "FILE", &ca_file, "certificates in PEM that an https server's must be signed by [this machine's]").FlagOnly();
  fields.Add("insecure", "", &insecure, "takes any certificate").FlagOnly();
  fields.Add("timeout", "S", &timeout, "seconds that one request may take").Range(0.001, 1e6).FlagOnly();
  fields.Group("Requests");
  fields.Add("dataset", "NAME", &dataset, "random, shared-prefix, or trace:FILE (JSON lines)").FlagOnly();
  fields.Add("num-prompts", "N", &num_prompts, "requests [1000, or all of a trace]").Range(1, 1'000'000).FlagOnly();
  fields.Add("random-input-len", "N", &random_input_len, "tokens of a prompt; words for chat").Range(1, 1 << 24).FlagOnly();
  fields.Add("random-output-len", "N", &random_output_len, "tokens of an answer, at most").Range(1, 1 << 24).FlagOnly();
  fields.Add("random-prefix-len", "N", &random_prefix_len, "tokens that all prompts begin with [shared-prefix: 1024, else 0]").Range(-1, 1 << 24).FlagOnly();
  fields.Add("random-range-ratio", "R", &random_range_ratio, "lengths vary by length × (1 ± R)").Range(0, 1).FlagOnly();
  fields.Add("vocab", "N", &vocab, "ids of random prompts are below N").Range(2, 1 << 24).FlagOnly();
  fields.Add("seed", "N", &seed, "the same seed sends the same requests").FlagOnly();
  fields.Add("temperature", "T", &temperature, "0: greedy").Range(0, 100).FlagOnly();
  fields.Add("ignore-eos", "", &ignore_eos, "answers have their full length").FlagOnly();
  fields.Group("Load");
  fields.Add("request-rate", "R", &request_rate, "requests a second, or inf: all at once").FlagOnly();
  fields.Add("burstiness", "B", &burstiness, "1: Poisson arrivals; less: in bursts; more: evenly").Range(0.001, 1e6).FlagOnly();
  fields.Add("max-concurrency", "N", &max_concurrency, "requests at once; 0: no limit").Range(0, 1'000'000).FlagOnly();
  fields.Add("num-warmups", "N", &num_warmups, "requests before, not counted").Range(0, 10'000).FlagOnly();
  fields.Group("Result");
  fields.Add("goodput", "GOAL", &goodput, "ttft:MS, tpot:MS, e2el:MS: counts requests that keep all").FlagOnly();
  fields.Add("save-result", "FILE", &save_result, "the result as JSON").FlagOnly();
  output.Describe(fields);
}

Status RunBenchServe(const BenchServeOptions& options, Context& context) {
  SKEIN_ASSIGN_OR_RETURN(const double rate, RateOf(options.request_rate));
  std::vector<std::string> goals = options.goodput;
  for (const std::string& goal : {options.second_goal, options.third_goal}) {
    if (!goal.empty() && options.goodput.empty()) {
      return InvalidArgument(fmt::format("skein bench serve takes no argument, found '{}'; give the server with --base-url", goal.substr(0, 60)));
    }
    if (!goal.empty()) goals.push_back(goal);
  }
  RunFacts facts;
  SKEIN_ASSIGN_OR_RETURN(facts.goals, ParseGoals(goals));
  const bool visible = std::all_of(options.endpoint.begin(), options.endpoint.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!visible || !options.endpoint.starts_with('/') || !options.endpoint.ends_with(kCompletionPath)) {
    return InvalidArgument(fmt::format("--endpoint takes a path such as /v1/completions or /v1/chat/completions, found '{}'",
                                       options.endpoint.substr(0, 60)), "--endpoint");
  }
  ClientOptions client;
  client.path = options.endpoint;
  client.timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<float>(options.timeout));
  client.max_concurrency = static_cast<std::size_t>(options.max_concurrency);
  SKEIN_ASSIGN_OR_RETURN(client.api_key, ApiKey(options.api_key_file));
  server::TlsContext tls;
  SKEIN_ASSIGN_OR_RETURN(client.target, ResolveTarget(options.base_url));
  if (client.target.secure) {
    SKEIN_ASSIGN_OR_RETURN(tls, server::LoadClientTlsContext(options.ca_file, options.insecure));
    client.tls = tls.get();
  }
  facts.model = options.model;
  if (facts.model.empty()) {
    SKEIN_ASSIGN_OR_RETURN(facts.model, ServedModel(client));
  }
  const WorkloadOptions workload = WorkloadOf(options, facts.model, rate);
  SKEIN_ASSIGN_OR_RETURN(const std::vector<LoadRequest> requests, MakeWorkload(workload));
  facts.base_url = options.base_url;
  facts.endpoint = options.endpoint;
  facts.dataset = options.dataset;
  facts.request_rate = rate;
  facts.burstiness = workload.burstiness;
  facts.max_concurrency = options.max_concurrency;
  facts.seed = options.seed;

  Cancellation cancellation;
  const InterruptGuard guard(cancellation, InterruptGuard::Mode::kOnce);
  SKEIN_RETURN_IF_ERROR(WarmUp(options, client, workload, cancellation));
  Result<RunOutcome> run = Status(Code::kInternal, "not run");
  {
    ProgressBar bar(context, "requests");
    run = RunLoad(client, requests, cancellation, [&](std::size_t done) { bar.Show(done, requests.size()); });
  }
  if (!run.ok()) return run.status();
  const Figures figures = FiguresOf(std::move(facts), run->requests, run->duration_s, run->concurrent_peak);
  const std::string json = JsonOf(figures, BuildCommit());
  if (!options.save_result.empty()) {
    SKEIN_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(options.save_result));
    SKEIN_RETURN_IF_ERROR(file.Write(json));
    SKEIN_RETURN_IF_ERROR(file.Commit());
  }
  SKEIN_RETURN_IF_ERROR(context.out().Write(context.json() ? json : TableOf(figures)));
  if (figures.completed > 0) return OkStatus();
  const std::string reason = figures.failures.empty() ? "" : figures.failures.front().first;
  return Status(Code::kUnavailable, fmt::format("at least one request is expected to be answered, {} failed ({}); check --base-url, --model and the server's log",
                                                figures.failed, reason));
}

}  // namespace skein::app
