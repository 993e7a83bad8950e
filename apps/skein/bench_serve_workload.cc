// SPDX-License-Identifier: Apache-2.0
#include "bench_serve_workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <random>

#include "base/json_writer.h"

namespace skein::app {
namespace {

namespace json = boost::json;

constexpr std::string_view kTrace = "trace:";
constexpr std::size_t kTraceLineBytesMax = 16 << 20;
constexpr std::size_t kRequestsMax = 1'000'000;
constexpr int kFirstOrdinaryId = 300;  // below lie bytes and special tokens in most vocabularies
constexpr std::string_view kWords[] = {
    "time", "house", "water", "light", "paper", "music", "green", "river", "story", "table", "world", "night",
    "small", "large", "north", "south", "stone", "train", "plant", "bread", "horse", "cloud", "glass", "heart"};

// SplitMix64: a generator of one word that can start anywhere, so that each request has its own.
class Random {
 public:
  using result_type = std::uint64_t;
  Random(std::uint64_t seed, std::uint64_t stream) : state_(seed * 0x9e3779b97f4a7c15 + (stream + 1) * 0xd1342543de82ef95) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Of [low, high].
  int Between(int low, int high) {
    return low + static_cast<int>((*this)() % static_cast<std::uint64_t>(std::int64_t{high} - low + 1));
  }

 private:
  std::uint64_t state_;
};

constexpr std::uint64_t kArrivalStream = std::uint64_t{1} << 62;
constexpr std::uint64_t kPrefixStream = kArrivalStream + 1;

// What one request asks, before it is a body.
struct Ask {
  std::optional<double> timestamp_ms;
  int input_tokens = 0, output_tokens = 0;
  std::optional<std::string> prompt;
};

// Appends `count` tokens: ids with commas between, or words.
void AppendTokens(std::string& out, Random& random, int count, const WorkloadOptions& options) {
  const int first = options.vocabulary > 2 * kFirstOrdinaryId ? kFirstOrdinaryId : 0;
  for (int i = 0; i < count; ++i) {
    if (options.chat) {
      if (!out.empty()) out += ' ';
      out += kWords[random() % std::size(kWords)];
    } else {
      if (!out.empty()) out += ',';
      fmt::format_to(std::back_inserter(out), "{}", random.Between(first, options.vocabulary - 1));
    }
  }
}

std::string BodyOf(const Ask& ask, const std::string& prompt, const WorkloadOptions& options) {
  JsonWriter writer;
  writer.BeginObject().Member("model", options.model);
  if (options.chat) {
    writer.Key("messages").BeginArray().BeginObject().Member("role", "user").Member("content", prompt).EndObject().EndArray();
  } else if (ask.prompt) {
    writer.Member("prompt", prompt);
  } else {
    writer.Key("prompt").Raw("[" + prompt + "]");
  }
  writer.Member("max_tokens", ask.output_tokens).Member("temperature", options.temperature).Member("stream", true);
  writer.Key("stream_options").BeginObject().Member("include_usage", true).EndObject();
  if (options.ignore_eos) writer.Member("ignore_eos", true);
  writer.EndObject();
  return writer.Take();
}

Result<double> Number(const json::object& line, std::string_view key, double low, double high, std::string_view shown) {
  const json::value* value = line.if_contains({key.data(), key.size()});
  double number = std::numeric_limits<double>::quiet_NaN();
  if (value != nullptr && value->is_number()) {
    number = value->is_double() ? value->get_double()
             : value->is_int64() ? static_cast<double>(value->get_int64()) : static_cast<double>(value->get_uint64());
  }
  if (!(number >= low && number <= high)) {
    return InvalidFile(fmt::format("{}: {} is expected to be a number from {} to {}", shown, key, low, high));
  }
  return number;
}

Result<Ask> AskOfLine(const std::string& text, const std::string& shown) {
  json::error_code error;
  const json::value value = json::parse(text, error);
  if (error || !value.is_object()) return InvalidFile(fmt::format("{} is expected to be a JSON object", shown));
  const json::object& line = value.get_object();
  constexpr double kTokensMax = 1 << 24, kMillisecondsMax = 1e12;
  Ask ask;
  for (const std::string_view key : {"timestamp_ms", "timestamp"}) {
    if (ask.timestamp_ms || !line.contains({key.data(), key.size()})) continue;
    SKEIN_ASSIGN_OR_RETURN(ask.timestamp_ms, Number(line, key, 0, kMillisecondsMax, shown));
  }
  if (const json::value* prompt = line.if_contains("prompt"); prompt != nullptr && prompt->is_string()) {
    ask.prompt = std::string(prompt->get_string());
    SKEIN_ASSIGN_OR_RETURN(const double tokens, Number(line, "max_tokens", 1, kTokensMax, shown));
    ask.output_tokens = static_cast<int>(tokens);
    return ask;
  }
  SKEIN_ASSIGN_OR_RETURN(const double input, Number(line, "input_length", 1, kTokensMax, shown));
  SKEIN_ASSIGN_OR_RETURN(const double output, Number(line, "output_length", 1, kTokensMax, shown));
  ask.input_tokens = static_cast<int>(input);
  ask.output_tokens = static_cast<int>(output);
  return ask;
}

Result<std::vector<Ask>> ReadTrace(const std::string& path, int num_prompts) {
  // Only a file with an end can be read to its end.
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::is_regular_file(path, error) ? std::filesystem::file_size(path, error) : kBodyBytesMax + 1;
  std::ifstream file(path);
  if (!file || error || bytes > kBodyBytesMax) return InvalidArgument(fmt::format("--dataset trace: {} cannot be read; give a file of JSON lines", path), "--dataset");
  const std::size_t wanted = num_prompts > 0 ? static_cast<std::size_t>(num_prompts) : kRequestsMax;
  std::vector<Ask> asks;
  std::string line;
  for (std::size_t number = 1; asks.size() < wanted && std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string shown = fmt::format("{}: line {}", path, number);
    if (line.size() > kTraceLineBytesMax) return InvalidFile(fmt::format("{} is longer than {} bytes", shown, kTraceLineBytesMax));
    SKEIN_ASSIGN_OR_RETURN(Ask ask, AskOfLine(line, shown));
    if (!asks.empty() && ask.timestamp_ms.has_value() != asks.front().timestamp_ms.has_value()) {
      return InvalidFile(fmt::format("{}: either all lines or none have a timestamp_ms", shown));
    }
    asks.push_back(std::move(ask));
  }
  if (asks.empty()) return InvalidFile(fmt::format("{} is expected to have a JSON object on each line, found none", path));
  std::stable_sort(asks.begin(), asks.end(), [](const Ask& a, const Ask& b) { return a.timestamp_ms < b.timestamp_ms; });
  return asks;
}

std::vector<Ask> RandomAsks(const WorkloadOptions& options) {
  std::vector<Ask> asks(static_cast<std::size_t>(options.num_prompts > 0 ? options.num_prompts : WorkloadOptions::kNumPrompts));
  Random random(options.seed, kArrivalStream + 2);
  const auto length = [&](int mean) {
    const int low = std::max(1, static_cast<int>(std::floor(mean * (1 - options.range_ratio))));
    return random.Between(low, std::max(low, static_cast<int>(std::ceil(mean * (1 + options.range_ratio)))));
  };
  for (Ask& ask : asks) {
    ask.input_tokens = length(options.input_tokens);
    ask.output_tokens = length(options.output_tokens);
  }
  return asks;
}

Result<std::vector<Ask>> AsksOf(const WorkloadOptions& options) {
  if (options.dataset == "random" || options.dataset == "shared-prefix") return RandomAsks(options);
  if (options.dataset.starts_with(kTrace)) return ReadTrace(options.dataset.substr(kTrace.size()), options.num_prompts);
  return InvalidArgument(fmt::format("--dataset takes random, shared-prefix or trace:FILE, found '{}'", options.dataset.substr(0, 60)),
                         "--dataset");
}

}  // namespace

std::vector<double> ArrivalTimes(std::size_t count, double rate, double burstiness, std::uint64_t seed) {
  std::vector<double> times(count, 0);
  if (rate <= 0 || count == 0) return times;
  Random random(seed, kArrivalStream);
  std::gamma_distribution<double> gap(burstiness, 1 / (rate * burstiness));
  double at = 0;
  for (double& time : times) time = at += gap(random);
  const double scale = at > 0 ? static_cast<double>(count) / rate / at : 0;
  for (double& time : times) time *= scale;
  return times;
}

Result<std::vector<LoadRequest>> MakeWorkload(const WorkloadOptions& options) {
  SKEIN_ASSIGN_OR_RETURN(const std::vector<Ask> asks, AsksOf(options));
  const int by_dataset = options.dataset == "shared-prefix" ? WorkloadOptions::kSharedPrefixTokens : 0;
  const int prefix_tokens = options.prefix_tokens >= 0 ? options.prefix_tokens : by_dataset;
  std::string prefix;
  Random prefix_random(options.seed, kPrefixStream);
  AppendTokens(prefix, prefix_random, prefix_tokens, options);
  std::vector<double> arrivals = ArrivalTimes(asks.size(), options.request_rate, options.burstiness, options.seed);
  std::vector<LoadRequest> requests(asks.size());
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < asks.size(); ++i) {
    const Ask& ask = asks[i];
    Random random(options.seed, i);
    std::string prompt = prefix;
    if (ask.prompt) {
      prompt = *ask.prompt;
    } else {
      AppendTokens(prompt, random, ask.input_tokens, options);
    }
    LoadRequest& request = requests[i];
    request.arrival_s = ask.timestamp_ms ? (*ask.timestamp_ms - *asks.front().timestamp_ms) / 1000 : arrivals[i];
    request.input_tokens = ask.prompt ? 0 : prefix_tokens + ask.input_tokens;
    request.body = BodyOf(ask, prompt, options);
    bytes += request.body.size();
    if (bytes > kBodyBytesMax) {
      return LimitExceeded(fmt::format("the prompts of this run need more than {} MiB; lower --num-prompts or --random-input-len",
                                       kBodyBytesMax >> 20), "--num-prompts");
    }
  }
  return requests;
}

}  // namespace skein::app
