// SPDX-License-Identifier: Apache-2.0
//
// skein bench model: prefill (pp) and decode (tg) in tokens a second, through the engine's client like any request.
//
// pp: B prompts of D + P tokens are submitted at once, timed from there to the last first token; for D > 0 the time of the
// first D tokens, measured alone, is taken off. tg: B prompts of D tokens (at least one) generate N more each; what
// counts are the tokens that came while all B were generating, first ones not.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <condition_variable>
#include <mutex>

#include "base/json_writer.h"
#include "commands.h"
#include "help.h"
#include "interrupt.h"
#include "load.h"
#include "trace.h"

namespace skein::app {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

double Seconds(std::chrono::steady_clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Notes when tokens of one request came, on the engine's thread.
class TimingSink final : public engine::TokenSink {
 public:
  explicit TimingSink(std::size_t tokens) { times_.reserve(tokens); }
  bool HasRoom() const override { return true; }
  void OnPrompt(engine::PromptEvent) override {}
  void OnToken(engine::TokenEvent) override { times_.push_back(std::chrono::steady_clock::now()); }
  void OnFinished(engine::FinishedEvent event) override {
    {
      const std::lock_guard lock(mutex_);
      error_ = event.error;
      finished_ = true;
    }
    ended_.notify_one();
  }

  // Waits for the end; afterwards times() may be read.
  Status WaitForEnd() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return finished_; });
    return error_.empty() ? OkStatus() : InternalError(error_);
  }
  const std::vector<SteadyTime>& times() const { return times_; }

 private:
  std::vector<SteadyTime> times_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool finished_ = false;
  std::string error_;
};

struct Test {
  int prompt = 0, generate = 0, depth = 0, batch = 1;

  std::string Name() const {
    std::string name = prompt > 0 ? fmt::format("pp{}", prompt) : fmt::format("tg{}", generate);
    if (depth > 0) name += fmt::format("@d{}", depth);
    return batch > 1 ? name + fmt::format("×b{}", batch) : name;
  }
  // Places in the KV cache of one sequence.
  int Tokens() const { return depth + std::max(prompt, 1) + generate + 2; }
};

struct Row {
  Test test;
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

class Bench {
 public:
  explicit Bench(api::LoadedModel& loaded) : loaded_(loaded) {}

  // Tokens a second of one repetition.
  Result<double> Measure(const Test& test) {
    if (test.prompt > 0) {
      SKEIN_ASSIGN_OR_RETURN(const double whole, PromptSeconds(test.depth + test.prompt, test.batch));
      double before = 0;
      if (test.depth > 0) {
        SKEIN_ASSIGN_OR_RETURN(before, PromptSeconds(test.depth, test.batch));
      }
      return test.prompt * test.batch / std::max(whole - before, 1e-9);
    }
    return DecodeRate(test);
  }

 private:
  using Sinks = std::vector<std::shared_ptr<TimingSink>>;

  // Submits `batch` prompts that generate `generate` tokens each, and waits for all.
  Result<Sinks> RunBatch(int prompt, int generate, int batch) {
    Sinks sinks;
    for (int i = 0; i < batch; ++i) {
      engine::RequestSpec spec;
      spec.request = loaded_.NextRequest();
      spec.tokens = RandomTokens(prompt);
      spec.prompt_tokens = prompt;
      spec.max_tokens = generate;
      spec.sampling.temperature = 0;
      spec.ignore_stop_tokens = true;
      sinks.push_back(std::make_shared<TimingSink>(static_cast<std::size_t>(generate)));
      SKEIN_RETURN_IF_ERROR(loaded_.client().Submit(std::move(spec), sinks.back()));
    }
    for (const auto& sink : sinks) SKEIN_RETURN_IF_ERROR(sink->WaitForEnd());
    return sinks;
  }

  Result<double> PromptSeconds(int prompt, int batch) {
    const SteadyTime begin = std::chrono::steady_clock::now();
    SKEIN_ASSIGN_OR_RETURN(const Sinks sinks, RunBatch(prompt, /*generate=*/1, batch));
    SteadyTime end = begin;
    for (const auto& sink : sinks) end = std::max(end, sink->times().front());
    return Seconds(end - begin);
  }

  Result<double> DecodeRate(const Test& test) {
    SKEIN_ASSIGN_OR_RETURN(const Sinks sinks, RunBatch(std::max(test.depth, 1), test.generate + 1, test.batch));
    SteadyTime begin = sinks.front()->times().front(), end = sinks.front()->times().back();
    for (const auto& sink : sinks) {
      begin = std::max(begin, sink->times().front());
      end = std::min(end, sink->times().back());
    }
    std::size_t count = 0;
    for (const auto& sink : sinks) {
      for (const SteadyTime time : sink->times()) count += time > begin && time <= end ? 1 : 0;
    }
    return static_cast<double>(count) / std::max(Seconds(end - begin), 1e-9);
  }

  std::vector<TokenId> RandomTokens(int count) {
    std::vector<TokenId> tokens(static_cast<std::size_t>(count));
    for (TokenId& token : tokens) {
      state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;  // Knuth's MMIX generator
      token = static_cast<TokenId>((state_ >> 33) % static_cast<std::uint64_t>(loaded_.info().vocabulary));
    }
    return tokens;
  }

  api::LoadedModel& loaded_;
  std::uint64_t state_ = 1;
};

std::vector<Test> TestsOf(const BenchModelOptions& options) {
  std::vector<Test> tests;
  for (const int batch : options.batches) {
    for (const int depth : options.depths) {
      for (const int prompt : options.prompts) {
        if (prompt > 0) tests.push_back({prompt, 0, depth, batch});
      }
      for (const int generate : options.generate) {
        if (generate > 0) tests.push_back({0, generate, depth, batch});
      }
    }
  }
  return tests;
}

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
  fields.AddPositional("MODEL", &model, true, "a GGUF file, a Hugging Face folder, a name, or default");
  fields.Group("Tests");
  fields.Add("n-prompt", "LIST", &prompts, "prompt lengths; 0: none").Range(0, 1 << 24).Letter('p');
  fields.Add("n-gen", "LIST", &generate, "tokens generated; 0: none").Range(0, 1 << 24).Letter('n');
  fields.Add("n-depth", "LIST", &depths, "tokens already in the cache").Range(0, 1 << 24).Letter('d');
  fields.Add("batch", "LIST", &batches, "sequences at once").Range(1, 1024).Letter('b');
  fields.Add("repetitions", "N", &repetitions, "of each test").Range(1, 1000).Letter('r');
  fields.Add("csv", "", &csv, "rows as CSV");
  fields.Add("md", "", &markdown, "rows as a Markdown table");
  fields.Add("profile", "FILE", &profile, "writes a Chrome trace of all steps' phases, and what each takes").FlagOnly();
  machine.Describe(fields);
  output.Describe(fields);
}

Status RunBenchModel(const BenchModelOptions& options, Context& context) {
  const std::vector<Test> tests = TestsOf(options);
  if (tests.empty()) return InvalidArgument("skein bench model needs a test, found -p and -n without any", "--n-prompt");
  std::optional<OutputFile> profile;  // opened first: a path that cannot be written is said before any work
  if (!options.profile.empty()) {
    SKEIN_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(options.profile));
    profile.emplace(std::move(file));
    model::PhaseClock::Start();
  }
  SKEIN_ASSIGN_OR_RETURN(api::Machine machine, api::ResolveMachine(options.machine.Resolved()));
  int longest = 0;
  for (const Test& test : tests) {
    const int frames = (test.Tokens() + kernels::kFrameTokens - 1) / kernels::kFrameTokens + 1;
    machine.kv_tokens = std::max(machine.kv_tokens, static_cast<std::uint64_t>(frames) * kernels::kFrameTokens *
                                                        static_cast<std::uint64_t>(test.batch));
    machine.sequences = std::max(machine.sequences, test.batch);
    machine.step_outputs = std::max(machine.step_outputs, test.batch);
    longest = std::max(longest, test.Tokens());
  }
  if (machine.context == 0) machine.context = longest;
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<api::LoadedModel> loaded, LoadForMeasuring(options.model, machine, context));
  Bench bench(*loaded);
  std::vector<Row> rows;
  for (const Test& test : tests) {
    Row row{test, {}};
    SKEIN_ASSIGN_OR_RETURN(const double warm, bench.Measure(test));
    static_cast<void>(warm);
    for (int i = 0; i < options.repetitions; ++i) {
      SKEIN_ASSIGN_OR_RETURN(const double sample, bench.Measure(test));
      row.samples.push_back(sample);
    }
    rows.push_back(std::move(row));
  }
  if (profile) SKEIN_RETURN_IF_ERROR(WritePhases(model::PhaseClock::Start().Read(), *profile, context));
  const ModelInfo& info = loaded->info();
  if (context.json()) return context.out().Write(JsonOf(rows, info));
  if (options.csv) return context.out().Write(CsvOf(rows, info));
  return context.out().Write(TableOf(rows, info, options.markdown));
}

}  // namespace skein::app
