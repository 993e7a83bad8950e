// SPDX-License-Identifier: Apache-2.0
#include "bench_ranks_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "base/json_writer.h"

namespace skein::app {
namespace {

constexpr double kNs = 1e-9;
constexpr int kBarColumns = 50;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

double MedianOver(const RankMeasurement& measurement, const std::function<double(const RankRound&)>& figure) {
  std::vector<double> values;
  for (const RankRound& round : measurement.rounds) values.push_back(figure(round));
  return Median(std::move(values));
}

double Efficiency(const RankRound& round) {
  return round.mesh.tokens_per_s / std::max(static_cast<double>(round.mesh.loads.size()) * round.one.tokens_per_s, 1e-9);
}

// The round whose efficiency is the median.
const RankRound& MiddleRound(const RankMeasurement& measurement) {
  const double middle = MedianOver(measurement, Efficiency);
  return *std::find_if(measurement.rounds.begin(), measurement.rounds.end(), [&](const RankRound& round) { return Efficiency(round) == middle; });
}

engine::RankLoad SumOf(const RankRun& run) {
  engine::RankLoad sum;
  for (const engine::RankLoad& load : run.loads) {
    sum.busy_ns += load.busy_ns;
    sum.communication_ns += load.communication_ns;
    sum.waiting_ns += load.waiting_ns;
    sum.bytes_sent += load.bytes_sent;
  }
  return sum;
}

double MostBusy(const RankRun& run) {
  std::uint64_t most = 0;
  for (const engine::RankLoad& load : run.loads) most = std::max(most, load.busy_ns);
  return static_cast<double>(most) * kNs;
}

// Multiplications for one token.
struct Cost {
  double attention = 0, feed_forward = 0, head = 0;  // the first two: of one layer
};

Cost CostOf(const formats::ModelConfig& config, engine::RankPart heads, engine::RankPart columns, engine::RankPart vocabulary, double context,
            double outputs) {
  const int group = std::max(config.heads / std::max(config.kv_heads, 1), 1);
  const double queries = heads.end - heads.begin;
  const double keys = heads.end > heads.begin ? (heads.end - 1) / group - heads.begin / group + 1 : 0;
  const double hidden = config.hidden, width = config.head_dim;
  return {.attention = hidden * width * 2 * (queries + keys) + 2 * queries * width * context,  // q and o, k and v; scores and sums of values
          .feed_forward = 3 * hidden * (columns.end - columns.begin),
          .head = hidden * (vocabulary.end - vocabulary.begin) * outputs};
}

Cost MostOf(const Cost& a, const Cost& b) {
  return {std::max(a.attention, b.attention), std::max(a.feed_forward, b.feed_forward), std::max(a.head, b.head)};
}

double Tokens(const ModelTest& test) { return static_cast<double>(test.prompt > 0 ? test.prompt : test.generate) * test.batch; }

}  // namespace

RankParts PartsOf(const RankRound& round) {
  const auto ranks = static_cast<double>(round.mesh.loads.size());
  const double all = std::max(ranks * round.mesh.seconds, 1e-9);
  const engine::RankLoad mesh = SumOf(round.mesh), one = SumOf(round.one);
  const double busy = static_cast<double>(mesh.busy_ns) * kNs, busy_alone = static_cast<double>(one.busy_ns) * kNs;
  const double waited = static_cast<double>(mesh.waiting_ns) * kNs;
  RankParts parts;
  parts.useful = round.one.seconds / all;
  parts.more_work = (busy - busy_alone) / all;
  parts.communication = static_cast<double>(mesh.communication_ns) * kNs / all;
  parts.imbalance = std::clamp(ranks * MostBusy(round.mesh) - busy, 0.0, waited) / all;
  parts.waiting = waited / all - parts.imbalance;
  parts.between = 1 - parts.useful - parts.more_work - parts.communication - parts.imbalance - parts.waiting;
  return parts;
}

double BalanceBound(const formats::ModelConfig& config, std::span<const engine::RankStats> ranks, double context, double outputs) {
  struct Stage {
    Cost most;
    int layers = 0;
    bool has_head = false;
  };
  std::map<std::int32_t, Stage> stages;
  for (const engine::RankStats& rank : ranks) {
    Stage& stage = stages[rank.pipe];
    stage.most = MostOf(stage.most, CostOf(config, rank.heads, rank.columns, rank.vocabulary, context, outputs));
    stage.layers = rank.layers.end - rank.layers.begin;
    stage.has_head = rank.layers.end == config.layers;
  }
  double slowest = 0;
  for (const auto& [pipe, stage] : stages) {
    slowest = std::max(slowest, stage.layers * (stage.most.attention + stage.most.feed_forward) + (stage.has_head ? stage.most.head : 0));
  }
  const Cost whole = CostOf(config, {0, config.heads}, {0, config.feed_forward}, {0, config.vocabulary}, context, outputs);
  const double all = config.layers * (whole.attention + whole.feed_forward) + whole.head;
  return slowest > 0 ? all / (static_cast<double>(ranks.size()) * slowest) : 0;
}

double BubbleFormula(const ModelTest& test, int stages, double plans) {
  if (stages < 2) return 0;
  if (test.generate > 0 && test.batch < stages) return 1 - static_cast<double>(test.batch) / stages;
  return (stages - 1) / (std::max(plans, 1.0) + stages - 1);
}

double BubbleOfUneven(const ModelTest& test, int stages, double formula, const RankRun& run) {
  if (test.generate > 0 && test.batch < stages) return formula;  // never full: stages take turns
  const double most = MostBusy(run) * static_cast<double>(run.loads.size());
  return most > 0 ? 1 - (1 - formula) * static_cast<double>(SumOf(run).busy_ns) * kNs / most : formula;
}

RankFigures FiguresOf(const RankMeasurement& measurement, std::span<const engine::RankStats> ranks, const formats::ModelConfig& config) {
  const ModelTest& test = measurement.test;
  RankFigures figures;
  figures.efficiency = MedianOver(measurement, Efficiency);
  figures.of_together = MedianOver(measurement, [](const RankRound& round) { return round.mesh.tokens_per_s / std::max(round.together.tokens_per_s, 1e-9); });
  const double context = test.depth + (test.prompt > 0 ? test.prompt : test.generate) / 2.0;
  figures.bound = BalanceBound(config, ranks, context, test.prompt > 0 ? 1.0 / test.prompt : 1);
  const RankRound& middle = MiddleRound(measurement);
  figures.parts = PartsOf(middle);
  figures.bytes_per_token = static_cast<double>(SumOf(middle.mesh).bytes_sent) / std::max(Tokens(test), 1.0);
  const int stages = ranks.empty() ? 1 : ranks.back().pipe + 1;
  figures.bubble_formula = BubbleFormula(test, stages, static_cast<double>(middle.mesh.loads.back().steps));
  if (stages > 1) {
    figures.bubble_uneven = BubbleOfUneven(test, stages, figures.bubble_formula, middle.mesh);
    figures.bubble = MedianOver(measurement, [](const RankRound& round) {
      return 1 - static_cast<double>(SumOf(round.mesh).busy_ns) * kNs / std::max(static_cast<double>(round.mesh.loads.size()) * round.mesh.seconds, 1e-9);
    });
  }
  return figures;
}

namespace {

struct NamedPart {
  const char* name;
  const char* key;
  const char* mark;
  double RankParts::*part;
};
constexpr NamedPart kParts[] = {{"useful", "useful", "█", &RankParts::useful},
                                {"more work", "more_work", "▓", &RankParts::more_work},
                                {"communication", "communication", "▒", &RankParts::communication},
                                {"imbalance", "imbalance", "!", &RankParts::imbalance},
                                {"waiting", "waiting", "░", &RankParts::waiting},
                                {"between steps", "between", "·", &RankParts::between}};

// The parts one after the other, `kBarColumns` for all. What is below nothing (measuring noise) is left out.
std::string BarOf(const RankParts& parts) {
  std::string bar;
  int drawn = 0;
  double until = 0;
  for (const NamedPart& part : kParts) {
    until += std::max(parts.*part.part, 0.0);
    for (; drawn < static_cast<int>(until * kBarColumns + 0.5) && drawn < kBarColumns; ++drawn) bar += part.mark;
  }
  return bar;
}

void AppendLoad(JsonWriter& json, const engine::RankStats& rank, const engine::RankLoad& load, double seconds) {
  const auto share = [&](std::uint64_t ns) { return static_cast<double>(ns) * kNs / std::max(seconds, 1e-9); };
  json.BeginObject().Member("rank", rank.rank).Member("busy", share(load.busy_ns)).Member("communication", share(load.communication_ns));
  json.Member("waiting", share(load.waiting_ns)).Member("steps", load.steps).Member("bytes_sent", load.bytes_sent).EndObject();
}

void AppendRates(JsonWriter& json, const char* key, const RankMeasurement& measurement, RankRun RankRound::*run) {
  json.Key(key).BeginArray();
  for (const RankRound& round : measurement.rounds) json.Value((round.*run).tokens_per_s);
  json.EndArray();
}

void AppendPart(JsonWriter& json, const char* key, engine::RankPart part) { json.Key(key).BeginArray().Value(part.begin).Value(part.end).EndArray(); }

std::string ShareText(const engine::RankStats& rank, const formats::ModelConfig& config) {
  const auto part = [](engine::RankPart p) { return p.begin >= p.end ? std::string("none") : fmt::format("{}-{}", p.begin, p.end - 1); };
  return fmt::format("layers {} of {}, heads {} of {}, columns {} of {}, vocabulary {} of {}", part(rank.layers), config.layers, part(rank.heads), config.heads,
                     part(rank.columns), config.feed_forward, part(rank.vocabulary), config.vocabulary);
}

std::string MeasurementText(const RankMeasurement& measurement, const RankReport& report) {
  const RankFigures figures = FiguresOf(measurement, report.ranks, report.config);
  const auto rate = [&](RankRun RankRound::*run) { return MedianOver(measurement, [run](const RankRound& round) { return (round.*run).tokens_per_s; }); };
  std::string out = fmt::format("\n{:14} one rank {:.1f}   {} threads in one process {:.1f}   mesh {:.1f} tokens/s\n", measurement.test.Name(), rate(&RankRound::one),
                                report.info.threads, rate(&RankRound::together), rate(&RankRound::mesh));
  out += fmt::format("  η {:.1f} % of {} ranks; {:.1f} % of the bound {:.1f} % of uneven shares; {:.1f} % of one process\n", 100 * figures.efficiency,
                     report.ranks.size(), figures.bound > 0 ? 100 * figures.efficiency / figures.bound : 0, 100 * figures.bound, 100 * figures.of_together);
  out += fmt::format("  {}\n ", BarOf(figures.parts));
  for (const NamedPart& part : kParts) out += fmt::format(" {} {} {:.1f} %", part.mark, part.name, 100 * (figures.parts.*part.part));
  out += fmt::format("\n  {:.1f} KB sent for each token", figures.bytes_per_token / 1e3);
  if (figures.bubble_formula > 0) {
    out += fmt::format("; bubble {:.1f} %, by (p-1)/(m+p-1) {:.1f} %, with stages as uneven as these {:.1f} %", 100 * figures.bubble,
                       100 * figures.bubble_formula, 100 * figures.bubble_uneven);
  }
  out += "\n";
  const RankRun& mesh = MiddleRound(measurement).mesh;
  for (std::size_t rank = 0; rank < mesh.loads.size(); ++rank) {
    const engine::RankLoad& load = mesh.loads[rank];
    const auto percent = [&](std::uint64_t ns) { return 100 * static_cast<double>(ns) * kNs / std::max(mesh.seconds, 1e-9); };
    out += fmt::format("  rank {:<3} busy {:5.1f} %  communication {:5.1f} %  waiting {:5.1f} %  steps {}\n", rank, percent(load.busy_ns),
                       percent(load.communication_ns), percent(load.waiting_ns), load.steps);
  }
  return out;
}

}  // namespace

std::string RankJson(const RankReport& report, std::string_view build_commit) {
  JsonWriter json;
  json.BeginObject().Member("model", report.info.name).Member("weight_format", report.info.weight_format);
  json.Member("kernels", report.info.kernels).Member("arithmetic", report.info.arithmetic).Member("kv_dtype", report.info.kv_dtype);
  json.Member("threads", report.info.threads).Member("rank_threads", report.rank_threads).Key("mesh").BeginObject();
  json.Member("data", 1).Member("pipe", report.info.pipe).Member("seq", 1).Member("tensor", report.info.tensor).EndObject();
  json.Member("transport", report.info.transport).Member("wire", report.info.wire).Member("build_commit", build_commit);
  json.Key("ranks").BeginArray();
  for (const engine::RankStats& rank : report.ranks) {
    json.BeginObject().Member("rank", rank.rank).Member("pipe", rank.pipe).Member("tensor", rank.tensor);
    AppendPart(json, "layers", rank.layers);
    AppendPart(json, "heads", rank.heads);
    AppendPart(json, "columns", rank.columns);
    AppendPart(json, "vocabulary", rank.vocabulary);
    json.Member("memory_bytes", rank.load.memory_bytes).EndObject();
  }
  json.EndArray().Key("tests").BeginArray();
  for (const RankMeasurement& measurement : report.measurements) {
    const RankFigures figures = FiguresOf(measurement, report.ranks, report.config);
    const ModelTest& test = measurement.test;
    json.BeginObject().Member("test", test.Name()).Member("n_prompt", test.prompt).Member("n_gen", test.generate);
    json.Member("n_depth", test.depth).Member("batch", test.batch);
    json.Member("efficiency", figures.efficiency).Member("of_one_process", figures.of_together).Member("balance_bound", figures.bound);
    json.Key("parts").BeginObject();
    for (const NamedPart& part : kParts) json.Member(part.key, figures.parts.*part.part);
    json.EndObject().Member("bytes_per_token", figures.bytes_per_token);
    if (figures.bubble_formula > 0) json.Member("bubble", figures.bubble).Member("bubble_formula", figures.bubble_formula).Member("bubble_uneven", figures.bubble_uneven);
    AppendRates(json, "one_rank_ts", measurement, &RankRound::one);
    AppendRates(json, "one_process_ts", measurement, &RankRound::together);
    AppendRates(json, "mesh_ts", measurement, &RankRound::mesh);
    json.Key("ranks").BeginArray();
    const RankRun& mesh = MiddleRound(measurement).mesh;
    for (std::size_t i = 0; i < mesh.loads.size(); ++i) AppendLoad(json, report.ranks[i], mesh.loads[i], mesh.seconds);
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return json.Take() + "\n";
}

std::string RankText(const RankReport& report) {
  const ModelInfo& info = report.info;
  std::string out = fmt::format("{} ({}): pipe {} × tensor {}, {} ranks of {} thread{}, transport {}, wire {}, kernels {}, arithmetic {}\n", info.name,
                                info.weight_format, info.pipe, info.tensor, report.ranks.size(), report.rank_threads, report.rank_threads == 1 ? "" : "s",
                                info.transport, info.wire, info.kernels, info.arithmetic);
  for (const engine::RankStats& rank : report.ranks) out += fmt::format("rank {}: {}\n", rank.rank, ShareText(rank, report.config));
  for (const RankMeasurement& measurement : report.measurements) out += MeasurementText(measurement, report);
  return out;
}

}  // namespace skein::app
