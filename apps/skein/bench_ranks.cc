// SPDX-License-Identifier: Apache-2.0
//
// skein bench ranks: how much of its ranks a mesh makes use of, and where the rest goes. Three ways to run the same tests are held in memory and measured
// in turn, round after round: one rank, one process with all threads, the mesh. Ratios are taken within a round, since a machine's speed changes.
#include "bench_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "bench_model_measure.h"
#include "bench_ranks_figures.h"
#include "help.h"
#include "load.h"
#include "supervisor/rank_process.h"

namespace skein::app {
namespace {

using Clock = std::chrono::steady_clock;

// Ranks that are threads end a step a moment after its tokens are known; those that are processes tell of it with their next beat.
constexpr std::chrono::milliseconds kThreadsSettle{20};
constexpr std::chrono::milliseconds kProcessesSettle = 2 * supervisor::kBeatEvery + std::chrono::milliseconds(100);

engine::RankLoad Since(const engine::RankLoad& before, const engine::RankLoad& now) {
  return {.steps = now.steps - before.steps,
          .busy_ns = now.busy_ns - before.busy_ns,
          .communication_ns = now.communication_ns - before.communication_ns,
          .waiting_ns = now.waiting_ns - before.waiting_ns,
          .bytes_sent = now.bytes_sent - before.bytes_sent,
          .memory_bytes = now.memory_bytes,
          .recent_share = now.recent_share};
}

// One way to run the model, loaded.
class Way {
 public:
  static Result<std::unique_ptr<Way>> Load(const std::string& model, const api::Machine& machine, Context& context) {
    SKEIN_ASSIGN_OR_RETURN(std::unique_ptr<api::LoadedModel> loaded, LoadForMeasuring(model, machine, context));
    return std::unique_ptr<Way>(new Way(std::move(loaded), machine.processes() ? kProcessesSettle : kThreadsSettle));
  }

  // A run of a test, with what the ranks did in it.
  Result<RankRun> Run(const ModelTest& test) {
    const std::vector<engine::RankStats> before = Settled();
    const Clock::time_point begin = Clock::now();
    SKEIN_ASSIGN_OR_RETURN(const double rate, bench_.Measure(test));
    RankRun run{.tokens_per_s = rate, .seconds = std::chrono::duration<double>(Clock::now() - begin).count(), .loads = {}};
    const std::vector<engine::RankStats> after = Settled();
    for (std::size_t i = 0; i < after.size(); ++i) run.loads.push_back(Since(before[i].load, after[i].load));
    return run;
  }
  std::vector<engine::RankStats> Settled() const {
    std::this_thread::sleep_for(settle_);
    return loaded_->client().Ranks();
  }
  const api::LoadedModel& loaded() const { return *loaded_; }

 private:
  Way(std::unique_ptr<api::LoadedModel> loaded, std::chrono::milliseconds settle) : loaded_(std::move(loaded)), bench_(*loaded_), settle_(settle) {}

  std::unique_ptr<api::LoadedModel> loaded_;
  ModelBench bench_;
  std::chrono::milliseconds settle_;
};

// The mesh that was asked for: two ranks of the tensor axis unless something was said, a thread each.
Result<api::Machine> MachineOf(const BenchRanksOptions& options) {
  EngineOptions engine = options.machine.Resolved();
  if (engine.tensor * engine.pipe == 1) engine.tensor = 2;
  const int ranks = engine.tensor * engine.pipe;
  if (engine.threads == 0) engine.threads = ranks;
  if (engine.threads % ranks != 0) {
    return InvalidArgument(fmt::format("--threads is expected to be a multiple of the {} ranks, so that all have as many, found {}", ranks, engine.threads),
                           "--threads");
  }
  return api::ResolveMachine(engine);
}

api::Machine OnOneRank(api::Machine machine, int threads) {
  machine.mesh = {1, 1, 1, 1};
  machine.threads = threads;
  return machine;
}

}  // namespace

void BenchRanksOptions::Describe(FieldList& fields) {
  tests.Describe(fields);
  fields.Add("rounds", "N", &rounds, "of each test, in each way").Range(1, 100).Letter('r');
  machine.Describe(fields);
  output.Describe(fields);
}

Status RunBenchRanks(const BenchRanksOptions& options, Context& context) {
  SKEIN_ASSIGN_OR_RETURN(const std::vector<ModelTest> tests, options.tests.Tests("skein bench ranks"));
  SKEIN_ASSIGN_OR_RETURN(api::Machine machine, MachineOf(options));
  FitTests(tests, machine);
  const int ranks = machine.mesh.product();
  RankReport report;
  report.rank_threads = machine.threads / ranks;
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<Way> one, Way::Load(options.tests.model, OnOneRank(machine, report.rank_threads), context));
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<Way> together, Way::Load(options.tests.model, OnOneRank(machine, machine.threads), context));
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<Way> mesh, Way::Load(options.tests.model, machine, context));
  report.info = mesh->loaded().info();
  report.config = mesh->loaded().file().config();
  for (const ModelTest& test : tests) {
    RankMeasurement measurement{test, {}};
    for (int round = 0; round <= options.rounds; ++round) {
      RankRound measured;
      SKEIN_ASSIGN_OR_RETURN(measured.one, one->Run(test));
      SKEIN_ASSIGN_OR_RETURN(measured.together, together->Run(test));
      SKEIN_ASSIGN_OR_RETURN(measured.mesh, mesh->Run(test));
      if (round > 0) measurement.rounds.push_back(std::move(measured));  // the first one only warms
    }
    report.measurements.push_back(std::move(measurement));
  }
  report.ranks = mesh->Settled();
  return context.out().Write(context.json() ? RankJson(report, BuildCommit()) : RankText(report));
}

}  // namespace skein::app
