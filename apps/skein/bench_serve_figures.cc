// SPDX-License-Identifier: Apache-2.0
#include "bench_serve_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

namespace skein::app {
namespace {

constexpr double kMilliseconds = 1000;
constexpr std::string_view kOther = "other reasons";

double Percentile(const std::vector<double>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const std::size_t below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double PerSecond(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

std::optional<double> TimePerToken(const RequestOutcome& outcome) {
  if (outcome.output_tokens < 2) return std::nullopt;
  return kMilliseconds * (outcome.end_s - outcome.first_token_s) / static_cast<double>(outcome.output_tokens - 1);
}

bool Keeps(const Goals& goals, const RequestOutcome& outcome) {
  const auto within = [](const std::optional<double>& goal, double value) { return !goal || value <= *goal; };
  return within(goals.ttft_ms, kMilliseconds * outcome.first_token_s) &&
         within(goals.tpot_ms, TimePerToken(outcome).value_or(0)) && within(goals.e2el_ms, kMilliseconds * outcome.end_s);
}

// The most frequent reasons; a hostile server can make as many as there are requests.
std::vector<std::pair<std::string, std::size_t>> CountFailures(const std::vector<RequestOutcome>& outcomes) {
  std::map<std::string_view, std::size_t> counts;
  for (const RequestOutcome& outcome : outcomes) {
    if (!outcome.completed) ++counts[outcome.failure];
  }
  std::vector<std::pair<std::string, std::size_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (sorted.size() <= Figures::kReasonsMax) return sorted;
  std::size_t others = 0;
  for (std::size_t i = Figures::kReasonsMax - 1; i < sorted.size(); ++i) others += sorted[i].second;
  sorted.resize(Figures::kReasonsMax - 1);
  sorted.emplace_back(kOther, others);
  return sorted;
}

void WriteDistribution(JsonWriter& json, std::string_view name, const Distribution& values) {
  json.Member(fmt::format("mean_{}_ms", name), values.mean).Member(fmt::format("median_{}_ms", name), values.median);
  json.Member(fmt::format("std_{}_ms", name), values.deviation).Member(fmt::format("p99_{}_ms", name), values.p99);
}

}  // namespace

Distribution DistributionOf(std::vector<double> values) {
  Distribution found;
  if (values.empty()) return found;
  std::sort(values.begin(), values.end());
  const double count = static_cast<double>(values.size());
  for (const double value : values) found.mean += value / count;
  double squares = 0;
  for (const double value : values) squares += (value - found.mean) * (value - found.mean);
  found.deviation = std::sqrt(squares / count);
  found.median = Percentile(values, 0.5);
  found.p99 = Percentile(values, 0.99);
  return found;
}

Result<Goals> ParseGoals(const std::vector<std::string>& texts) {
  Goals goals;
  for (const std::string& text : texts) {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      const std::string_view goal = std::string_view(text).substr(begin, end - begin);
      begin = end + 1;
      const std::size_t colon = std::min(goal.find(':'), goal.size());
      const std::string_view name = goal.substr(0, colon);
      const std::string_view number = goal.substr(std::min(colon + 1, goal.size()));
      std::optional<double>* target = name == "ttft"   ? &goals.ttft_ms
                                      : name == "tpot" ? &goals.tpot_ms
                                      : name == "e2el" ? &goals.e2el_ms
                                                       : nullptr;
      double value = 0;
      const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
      const bool whole = error == std::errc() && stop == number.data() + number.size() && std::isfinite(value) && value > 0;
      if (target == nullptr || !whole) {
        return InvalidArgument(fmt::format("--goodput takes ttft:MS, tpot:MS or e2el:MS, found '{}'", goal.substr(0, 60)), "--goodput");
      }
      *target = value;
    }
  }
  return goals;
}

Figures FiguresOf(RunFacts facts, const std::vector<RequestOutcome>& outcomes, double duration_s, std::size_t concurrent_peak) {
  Figures figures;
  figures.duration_s = duration_s;
  figures.concurrent_peak = concurrent_peak;
  std::vector<double> ttft, tpot, itl, e2el;
  for (const RequestOutcome& outcome : outcomes) {
    if (!outcome.completed) continue;
    ++figures.completed;
    figures.input_tokens += outcome.input_tokens;
    figures.output_tokens += outcome.output_tokens;
    ttft.push_back(kMilliseconds * outcome.first_token_s);
    e2el.push_back(kMilliseconds * outcome.end_s);
    if (const std::optional<double> time = TimePerToken(outcome)) tpot.push_back(*time);
    for (const float gap : outcome.between_s) itl.push_back(kMilliseconds * static_cast<double>(gap));
    if (facts.goals.any() && Keeps(facts.goals, outcome)) ++figures.good;
  }
  figures.failed = outcomes.size() - figures.completed;
  figures.failures = CountFailures(outcomes);
  figures.ttft = DistributionOf(std::move(ttft));
  figures.tpot = DistributionOf(std::move(tpot));
  figures.itl = DistributionOf(std::move(itl));
  figures.e2el = DistributionOf(std::move(e2el));
  figures.facts = std::move(facts);
  return figures;
}

std::string JsonOf(const Figures& figures, std::string_view build_commit) {
  const RunFacts& facts = figures.facts;
  JsonWriter json;
  json.BeginObject().Member("backend", "openai").Member("base_url", facts.base_url).Member("endpoint", facts.endpoint);
  json.Member("model_id", facts.model).Member("dataset", facts.dataset).Member("seed", facts.seed);
  json.Member("num_prompts", static_cast<std::uint64_t>(figures.completed + figures.failed));
  json.Key("request_rate");
  if (facts.request_rate > 0) {
    json.Value(facts.request_rate);
  } else {
    json.Value("inf");
  }
  json.Member("burstiness", facts.burstiness).Key("max_concurrency");
  if (facts.max_concurrency > 0) {
    json.Value(facts.max_concurrency);
  } else {
    json.Null();
  }
  json.Member("duration", figures.duration_s).Member("completed", static_cast<std::uint64_t>(figures.completed));
  json.Member("failed", static_cast<std::uint64_t>(figures.failed));
  json.Member("total_input_tokens", figures.input_tokens).Member("total_output_tokens", figures.output_tokens);
  json.Member("request_throughput", PerSecond(static_cast<double>(figures.completed), figures.duration_s));
  for (const char* key : {"request_goodput", "goodput"}) {
    json.Key(key);
    if (facts.goals.any()) {
      json.Value(PerSecond(static_cast<double>(figures.good), figures.duration_s));
    } else {
      json.Null();
    }
  }
  json.Member("output_throughput", PerSecond(static_cast<double>(figures.output_tokens), figures.duration_s));
  json.Member("total_token_throughput",
              PerSecond(static_cast<double>(figures.input_tokens + figures.output_tokens), figures.duration_s));
  json.Member("max_concurrent_requests", static_cast<std::uint64_t>(figures.concurrent_peak));
  WriteDistribution(json, "ttft", figures.ttft);
  WriteDistribution(json, "tpot", figures.tpot);
  WriteDistribution(json, "itl", figures.itl);
  WriteDistribution(json, "e2el", figures.e2el);
  json.Key("failures").BeginObject();
  for (const auto& [reason, count] : figures.failures) json.Member(reason, static_cast<std::uint64_t>(count));
  json.EndObject().Member("build_commit", build_commit).EndObject();
  return json.Take() + "\n";
}

std::string TableOf(const Figures& figures) {
  const RunFacts& facts = figures.facts;
  const double seconds = figures.duration_s;
  std::string out = fmt::format("{} at {}{}\n", facts.model, facts.base_url, facts.endpoint);
  const auto row = [&](std::string_view name, double value, int digits) {
    fmt::format_to(std::back_inserter(out), "{:28} {:>12.{}f}\n", name, value, digits);
  };
  row("completed", static_cast<double>(figures.completed), 0);
  row("failed", static_cast<double>(figures.failed), 0);
  row("most at once", static_cast<double>(figures.concurrent_peak), 0);
  row("duration, s", seconds, 2);
  row("input tokens", static_cast<double>(figures.input_tokens), 0);
  row("output tokens", static_cast<double>(figures.output_tokens), 0);
  row("requests/s", PerSecond(static_cast<double>(figures.completed), seconds), 2);
  if (facts.goals.any()) row("good requests/s", PerSecond(static_cast<double>(figures.good), seconds), 2);
  row("output tokens/s", PerSecond(static_cast<double>(figures.output_tokens), seconds), 1);
  row("all tokens/s", PerSecond(static_cast<double>(figures.input_tokens + figures.output_tokens), seconds), 1);
  fmt::format_to(std::back_inserter(out), "\n{:28} {:>10} {:>10} {:>10} {:>10}\n", "milliseconds", "mean", "median", "±", "p99");
  const std::pair<std::string_view, const Distribution*> times[] = {{"first token (ttft)", &figures.ttft},
                                                                    {"per token (tpot)", &figures.tpot},
                                                                    {"between events (itl)", &figures.itl},
                                                                    {"whole answer (e2el)", &figures.e2el}};
  for (const auto& [name, values] : times) {
    fmt::format_to(std::back_inserter(out), "{:28} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f}\n", name, values->mean, values->median,
                   values->deviation, values->p99);
  }
  if (!figures.failures.empty()) out += "\nfailures\n";
  for (const auto& [reason, count] : figures.failures) fmt::format_to(std::back_inserter(out), "{:>8} × {}\n", count, reason);
  return out;
}

}  // namespace skein::app
