// SPDX-License-Identifier: Apache-2.0
//
// skein bench model: prefill and decode in tokens a second, as bench_model_measure.h says.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/json_writer.h"
#include "bench_model_measure.h"
#include "commands.h"
#include "help.h"
#include "load.h"
#include "trace.h"

namespace skein::app {
namespace {

struct Row {
  ModelTest test;
  std::vector<double> samples;  // tokens a second

  double Mean() const {
    double sum = 0;
    for (const double sample : samples) sum += sample;
    return sum / static_cast<double>(samples.size());
  }
  double Deviation() const {
    if (samples.size() < 2) return 0;
    const double mean = Mean();
    double sum = 0;
    for (const double sample : samples) sum += (sample - mean) * (sample - mean);
    return std::sqrt(sum / static_cast<double>(samples.size() - 1));
  }
};

std::string JsonOf(const std::vector<Row>& rows, const ModelInfo& info) {
  JsonWriter json;
  json.BeginArray();
  for (const Row& row : rows) {
    json.BeginObject().Member("test", row.test.Name()).Member("n_prompt", row.test.prompt);
    json.Member("n_gen", row.test.generate).Member("n_depth", row.test.depth).Member("batch", row.test.batch);
    json.Member("avg_ts", row.Mean()).Member("stddev_ts", row.Deviation()).Key("samples_ts").BeginArray();
    for (const double sample : row.samples) json.Value(sample);
    json.EndArray().Member("threads", info.threads).Member("kernels", info.kernels).Member("arithmetic", info.arithmetic);
    json.Member("kv_dtype", info.kv_dtype).Member("model", info.name).Member("weight_format", info.weight_format);
    json.Member("build_commit", BuildCommit()).EndObject();
  }
  json.EndArray();
  return json.Take() + "\n";
}

std::string CsvOf(const std::vector<Row>& rows, const ModelInfo& info) {
  std::string out = "test,n_prompt,n_gen,n_depth,batch,avg_ts,stddev_ts,threads,kernels,arithmetic,model,build_commit\n";
  for (const Row& row : rows) {
    std::string name = info.name;
    std::replace(name.begin(), name.end(), '"', '\'');
    out += fmt::format("{},{},{},{},{},{:.3f},{:.3f},{},{},{},\"{}\",{}\n", row.test.Name(), row.test.prompt,
                       row.test.generate, row.test.depth, row.test.batch, row.Mean(), row.Deviation(), info.threads,
                       info.kernels, info.arithmetic, name, BuildCommit());
  }
  return out;
}

std::string TableOf(const std::vector<Row>& rows, const ModelInfo& info, bool markdown) {
  std::string out = markdown ? "| test | tokens/s | ± |\n|---|---:|---:|\n"
                             : fmt::format("{} ({}), {} threads, kernels {}, arithmetic {}\n{:20} {:>10} {:>8}\n", info.name,
                                           info.weight_format, info.threads, info.kernels, info.arithmetic, "test",
                                           "tokens/s", "±");
  for (const Row& row : rows) {
    out += fmt::format(fmt::runtime(markdown ? "| {} | {:.1f} | {:.1f} |\n" : "{:20} {:>10.1f} {:>8.1f}\n"),
                       row.test.Name(), row.Mean(), row.Deviation());
  }
  return out;
}

}  // namespace

void BenchModelOptions::Describe(FieldList& fields) {
  tests.Describe(fields);
  fields.Add("repetitions", "N", &repetitions, "of each test").Range(1, 1000).Letter('r');
  fields.Add("csv", "", &csv, "rows as CSV");
  fields.Add("md", "", &markdown, "rows as a Markdown table");
  fields.Add("profile", "FILE", &profile, "writes a Chrome trace of all steps' phases, and what each takes").FlagOnly();
  machine.Describe(fields);
  output.Describe(fields);
}

Status RunBenchModel(const BenchModelOptions& options, Context& context) {
  SKEIN_ASSIGN_OR_RETURN(const std::vector<ModelTest> tests, options.tests.Tests("skein bench model"));
  EngineOptions engine_options = options.machine.Resolved();
  std::optional<OutputFile> profile;  // opened first: a path that cannot be written is said before any work
  if (!options.profile.empty()) {
    SKEIN_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(options.profile));
    profile.emplace(std::move(file));
    engine_options.phases = std::make_shared<model::PhaseClock>();
  }
  SKEIN_ASSIGN_OR_RETURN(api::Machine machine, api::ResolveMachine(engine_options));
  FitTests(tests, machine);
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<api::LoadedModel> loaded, LoadForMeasuring(options.tests.model, machine, context));
  ModelBench bench(*loaded);
  std::vector<Row> rows;
  for (const ModelTest& test : tests) {
    Row row{test, {}};
    SKEIN_ASSIGN_OR_RETURN(const double warm, bench.Measure(test));
    static_cast<void>(warm);
    for (int i = 0; i < options.repetitions; ++i) {
      SKEIN_ASSIGN_OR_RETURN(const double sample, bench.Measure(test));
      row.samples.push_back(sample);
    }
    rows.push_back(std::move(row));
  }
  if (profile) SKEIN_RETURN_IF_ERROR(WritePhases(engine_options.phases->Read(), *profile, context));
  const ModelInfo& info = loaded->info();
  if (context.json()) return context.out().Write(JsonOf(rows, info));
  if (options.csv) return context.out().Write(CsvOf(rows, info));
  return context.out().Write(TableOf(rows, info, options.markdown));
}

}  // namespace skein::app
