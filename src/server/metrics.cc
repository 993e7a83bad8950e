// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace skein::server {
namespace {

// Seconds, as vLLM has them.
constexpr double kFirstTokenBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25,  0.5,   0.75,
                                        1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
constexpr double kNextTokenBounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                       0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
constexpr double kLatencyBounds[] = {0.3,  0.5,  0.8,  1.0,  1.5,  2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                                     30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
constexpr double kChoiceBounds[] = {1, 2, 5, 10, 20};

// 1, 2, 5, 10, 20, 50 … up to `maximum`.
std::vector<double> TokenBounds(std::int64_t maximum) {
  std::vector<double> bounds;
  for (double power = 1; ; power *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (power * factor > static_cast<double>(maximum)) return bounds;
      bounds.push_back(power * factor);
    }
  }
}

// As Prometheus' Python client writes numbers, since the text of `le` is a label: 1.0, 0.25, 2560.0.
std::string Number(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string LabelText(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return text;
}

// Writes families in the order of the calls.
class Page {
 public:
  explicit Page(std::string_view model) : labels_(fmt::format("engine=\"0\",model_name=\"{}\"", LabelText(model))) {}

  void Head(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(out_), "# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  }
  // A series of the family, `extra` are labels before the usual ones.
  void Series(std::string_view name, double value, std::string_view extra = "") {
    fmt::format_to(std::back_inserter(out_), "{}{{{}{}{}}} {}\n", name, extra, extra.empty() ? "" : ",", labels_,
                   Number(value));
  }
  // Of our own families, which are of the process and not of a model.
  void Plain(std::string_view name, double value, std::string_view labels = "") {
    if (labels.empty()) {
      fmt::format_to(std::back_inserter(out_), "{} {}\n", name, Number(value));
    } else {
      fmt::format_to(std::back_inserter(out_), "{}{{{}}} {}\n", name, labels, Number(value));
    }
  }
  void Gauge(std::string_view name, double value, std::string_view help) {
    Head(name, "gauge", help);
    Series(name, value);
  }
  void Counter(std::string_view name, double value, std::string_view help) {
    Head(name, "counter", help);
    Series(name, value);
  }
  void OwnGauge(std::string_view name, double value, std::string_view help) {
    Head(name, "gauge", help);
    Plain(name, value);
  }
  void OwnCounter(std::string_view name, double value, std::string_view help) {
    Head(name, "counter", help);
    Plain(name, value);
  }
  void Distribution(std::string_view name, const Histogram& histogram, std::string_view help) {
    Head(name, "histogram", help);
    const std::string bucket = fmt::format("{}_bucket", name);
    for (std::size_t i = 0; i <= histogram.bounds().size(); ++i) {
      const std::string bound = i < histogram.bounds().size() ? Number(histogram.bounds()[i]) : "+Inf";
      Series(bucket, static_cast<double>(histogram.CountUpTo(i)), fmt::format("le=\"{}\"", bound));
    }
    Series(fmt::format("{}_sum", name), histogram.sum());
    Series(fmt::format("{}_count", name), static_cast<double>(histogram.CountUpTo(histogram.bounds().size())));
  }

  std::string Take() { return std::move(out_); }

 private:
  const std::string labels_;
  std::string out_;
};

// "0-14", as people count; "none" for nothing.
std::string PartText(engine::RankPart part) {
  return part.begin >= part.end ? std::string("none") : fmt::format("{}-{}", part.begin, part.end - 1);
}

// What each rank is and has done.
void WriteRanks(Page& page, std::span<const engine::RankStats> ranks) {
  if (ranks.empty()) return;
  struct Family {
    const char* name;
    const char* type;
    const char* help;
    double (*value)(const engine::RankStats& rank);
  };
  static constexpr Family kFamilies[] = {
      {"skein_rank_steps_total", "counter", "Steps that the rank has computed its part of.", [](const engine::RankStats& rank) { return static_cast<double>(rank.load.steps); }},
      {"skein_rank_busy_seconds_total", "counter", "Time in which the rank computed.", [](const engine::RankStats& rank) { return static_cast<double>(rank.load.busy_ns) * 1e-9; }},
      {"skein_rank_communication_seconds_total", "counter", "Time in which the rank talked to ranks that were there.",
       [](const engine::RankStats& rank) { return static_cast<double>(rank.load.communication_ns) * 1e-9; }},
      {"skein_rank_waiting_seconds_total", "counter", "Time in which the rank waited, in the middle of a step, for ranks that were not.",
       [](const engine::RankStats& rank) { return static_cast<double>(rank.load.waiting_ns) * 1e-9; }},
      {"skein_rank_communication_share", "gauge", "Communication and waiting in the rank's last steps; 1 is all of their time.",
       [](const engine::RankStats& rank) { return rank.load.recent_share; }},
      {"skein_rank_sent_bytes_total", "counter", "Bytes that the rank sent to others.", [](const engine::RankStats& rank) { return static_cast<double>(rank.load.bytes_sent); }},
      {"skein_rank_memory_bytes", "gauge", "Memory of the rank's weights and KV cache.", [](const engine::RankStats& rank) { return static_cast<double>(rank.load.memory_bytes); }},
      {"skein_rank_restarts_total", "counter", "Times that all ranks were started anew because this one was lost.",
       [](const engine::RankStats& rank) { return static_cast<double>(rank.losses); }},
  };
  page.Head("skein_rank_info", "gauge", "The rank's place on the mesh, and its share of the model.");
  for (const engine::RankStats& rank : ranks) {
    page.Plain("skein_rank_info", 1, fmt::format("rank=\"{}\",pipe=\"{}\",tensor=\"{}\",layers=\"{}\",heads=\"{}\",columns=\"{}\",vocabulary=\"{}\"", rank.rank, rank.pipe,
                                                 rank.tensor, PartText(rank.layers), PartText(rank.heads), PartText(rank.columns), PartText(rank.vocabulary)));
  }
  for (const Family& family : kFamilies) {
    page.Head(family.name, family.type, family.help);
    for (const engine::RankStats& rank : ranks) page.Plain(family.name, family.value(rank), fmt::format("rank=\"{}\"", rank.rank));
  }
}

}  // namespace

void Histogram::Observe(double value) {
  const auto place = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(place)];
  sum_ += value;
}

std::uint64_t Histogram::CountUpTo(std::size_t index) const {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i <= index; ++i) count += counts_[i];
  return count;
}

Metrics::Metrics(std::string model, std::int64_t context)
    : model_(std::move(model)),
      token_bounds_(TokenBounds(context)),
      first_token_(kFirstTokenBounds),
      next_token_(kNextTokenBounds),
      total_(kLatencyBounds),
      queue_(kLatencyBounds),
      inference_(kLatencyBounds),
      prefill_(kLatencyBounds),
      decode_(kLatencyBounds),
      prompt_tokens_(token_bounds_),
      generated_tokens_(token_bounds_),
      n_(kChoiceBounds),
      max_tokens_(token_bounds_) {
  for (const char* reason : {"stop", "length", "abort", "error"}) finished_[reason] = 0;
}

void Metrics::OnFinished(const RequestFigures& figures) {
  const auto found = finished_.find(figures.finished_reason);
  if (found != finished_.end()) ++found->second;
  total_.Observe(figures.total_s);
  queue_.Observe(figures.queue_s);
  prompt_tokens_.Observe(static_cast<double>(figures.prompt_tokens));
  generated_tokens_.Observe(static_cast<double>(figures.generated_tokens));
  max_tokens_.Observe(static_cast<double>(figures.max_tokens));
  if (figures.generated_tokens == 0) return;
  prefill_.Observe(figures.prefill_s);
  decode_.Observe(figures.decode_s);
  inference_.Observe(figures.prefill_s + figures.decode_s);
}

void Metrics::OnParameters(std::int64_t n) { n_.Observe(static_cast<double>(n)); }

void Metrics::OnHttp(std::string_view route, int status) { ++http_[{std::string(route), status}]; }

std::string Metrics::Text(const engine::EngineStats& engine, const ServerGauges& gauges, std::span<const engine::RankStats> ranks) const {
  Page page(model_);
  const double blocks = engine.blocks_total == 0 ? 1 : engine.blocks_total;
  page.Gauge("vllm:num_requests_running", engine.running, "Sequences in the running batch.");
  page.Gauge("vllm:num_requests_waiting", static_cast<double>(engine.waiting + gauges.requests_waiting),
             "Requests waiting to be processed.");
  page.Gauge("vllm:kv_cache_usage_perc", engine.blocks_held / blocks, "KV cache usage by running sequences; 1 is full.");
  page.Counter("vllm:prefix_cache_queries_total", static_cast<double>(engine.prefix_queries),
               "Prompt tokens looked up in the prefix index.");
  page.Counter("vllm:prefix_cache_hits_total", static_cast<double>(engine.prefix_hits),
               "Prompt tokens found in the prefix index.");
  page.Counter("vllm:num_preemptions_total", static_cast<double>(engine.preemptions), "Sequences that gave way.");
  page.Counter("vllm:prompt_tokens_total", static_cast<double>(engine.prompt_tokens), "Prompt tokens computed.");
  page.Counter("vllm:generation_tokens_total", static_cast<double>(engine.generated_tokens), "Tokens generated.");
  page.Distribution("vllm:iteration_tokens_total",
                    Histogram(engine::kStepTokenBounds, engine.step_tokens, static_cast<double>(engine.prompt_tokens + engine.generated_tokens)),
                    "Tokens of an engine step, of prompts and generated together.");
  page.Head("vllm:request_success_total", "counter", "Finished sequences by reason.");
  for (const auto& [reason, count] : finished_) {
    page.Series("vllm:request_success_total", static_cast<double>(count), fmt::format("finished_reason=\"{}\"", reason));
  }
  page.Distribution("vllm:time_to_first_token_seconds", first_token_, "From a request's arrival to its first token.");
  page.Distribution("vllm:inter_token_latency_seconds", next_token_, "Between two tokens of a sequence.");
  page.Distribution("vllm:time_per_output_token_seconds", next_token_, "The same under its older name.");
  page.Distribution("vllm:e2e_request_latency_seconds", total_, "From a request's arrival to its end.");
  page.Distribution("vllm:request_queue_time_seconds", queue_, "From a request's arrival to its first step.");
  page.Distribution("vllm:request_inference_time_seconds", inference_, "From a request's first step to its last token.");
  page.Distribution("vllm:request_prefill_time_seconds", prefill_, "From a request's first step to its first token.");
  page.Distribution("vllm:request_decode_time_seconds", decode_, "From a request's first token to its last.");
  page.Distribution("vllm:request_prompt_tokens", prompt_tokens_, "Prompt tokens of a request.");
  page.Distribution("vllm:request_generation_tokens", generated_tokens_, "Generated tokens of a request.");
  page.Distribution("vllm:request_params_n", n_, "Choices that a request asked for.");
  page.Distribution("vllm:request_params_max_tokens", max_tokens_, "Tokens that a request asked for.");

  page.OwnGauge("skein_http_connections", static_cast<double>(gauges.connections), "Open connections.");
  page.OwnGauge("skein_http_streams", static_cast<double>(gauges.streams), "Event streams being written.");
  page.Head("skein_http_requests_total", "counter", "Answers by route and status.");
  for (const auto& [key, count] : http_) {
    page.Plain("skein_http_requests_total", static_cast<double>(count),
               fmt::format("route=\"{}\",status=\"{}\"", LabelText(key.first), key.second));
  }
  page.OwnGauge("skein_requests_admitted", static_cast<double>(gauges.requests_running), "Requests being answered.");
  page.OwnGauge("skein_requests_queued", static_cast<double>(gauges.requests_waiting),
                "Requests being read, or waiting to be admitted.");
  page.OwnCounter("skein_requests_refused_full_total", static_cast<double>(refused_full_),
                  "Requests turned away because the queue was full.");
  page.OwnCounter("skein_clients_gone_total", static_cast<double>(clients_gone_),
                  "Requests given up because their client had gone.");
  page.OwnGauge("skein_text_work_waiting", static_cast<double>(gauges.text_work_waiting),
                "Prompts that wait to be tokenised.");
  page.OwnCounter("skein_log_lines_lost_total", static_cast<double>(gauges.log_lines_lost),
                  "Lines of the log that could not be written.");
  page.OwnCounter("skein_engine_steps_total", static_cast<double>(engine.steps), "Steps of the engine.");
  page.OwnCounter("skein_engine_step_seconds_total", static_cast<double>(engine.step_ns) * 1e-9,
                  "Time that steps of the engine took to compute.");
  page.OwnCounter("skein_engine_communication_seconds_total", static_cast<double>(engine.communication_ns) * 1e-9,
                  "Of that, time in which ranks talked, or waited for each other.");
  page.OwnCounter("skein_engine_restarts_total", static_cast<double>(engine.restarts),
                  "Times that the engine's processes were lost and started anew.");
  page.OwnCounter("skein_requests_replayed_total", static_cast<double>(engine.replays),
                  "Sequences that went on after the engine's processes had been started anew.");
  page.OwnGauge("skein_kv_blocks", engine.blocks_total, "Blocks of the KV cache.");
  page.OwnGauge("skein_kv_blocks_held", engine.blocks_held, "Blocks that running sequences hold.");
  page.OwnGauge("skein_kv_blocks_cached", engine.blocks_cached, "Blocks that only the prefix index holds.");
  page.OwnGauge("skein_kv_places_unused", static_cast<double>(engine.places_unused),
                "Token places of held blocks that hold no token yet.");
  page.OwnGauge("skein_sequences_paused", engine.paused, "Sequences that wait for their slow clients.");
  page.OwnGauge("skein_draining", gauges.draining ? 1 : 0, "1 while the server takes no new work.");
  WriteRanks(page, ranks);
  return page.Take();
}

}  // namespace skein::server
