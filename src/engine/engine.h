// SPDX-License-Identifier: Apache-2.0
//
// Engine is the loop: take what arrived, plan, execute, commit, publish. It owns the scheduler, the executor and one
// thread. Where the executor takes several plans, they are made and submitted until it has enough, then the oldest is waited
// for. Idle it sleeps; a step that fails ends its own requests and nobody else's. Shutting down ends what is alive with
// kCancelled.
//
// Thread rule: EngineClient's functions by any thread. Everything else happens on the engine thread; without one
// (options.own_thread false) the owner calls Step itself, and Shutdown or the destructor at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/engine_client.h"
#include "engine/executor.h"
#include "engine/inbox.h"
#include "scheduler/scheduler.h"

namespace skein::engine {

struct EngineOptions {
  std::int32_t sequences = 64;          // running at once
  std::size_t inbox_requests = 256;     // that may arrive between two steps
  std::size_t requests = 1024;          // alive at once, running or waiting; beyond: kUnavailable
  std::string policy = "fcfs";
  // While answers run, a step is cut to about this (Scheduler). 0: a step takes as many tokens as the executor allows.
  std::int64_t step_target_ns = 60'000'000;
  scheduler::StepCost step_cost = {};   // what steps take, until some were measured
  bool prefix_cache = true;
  scheduler::HashSecret prefix_secret = {};  // random for each deployment, so that nobody outside can make keys collide
  std::string prefix_fingerprint = {};       // names model, arithmetic and KV type
  std::function<std::vector<RankStats>()> ranks = {};  // who knows of the executor's ranks; called by any thread
  bool own_thread = true;
  std::int64_t paused_look_ns = 5'000'000;  // how often sinks without room are looked at when nothing else runs
};

// What the scheduler is told of a request.
scheduler::SequenceState StateOf(RequestSpec request);

class Engine final : public EngineClient {
 public:
  // Errors: kInvalidArgument for an unknown policy or limits that are not positive. `clock` outlives the engine.
  static Result<std::unique_ptr<Engine>> Create(std::unique_ptr<Executor> executor, EngineOptions options,
                                                const Clock& clock);
  ~Engine() override;

  Status Submit(RequestSpec request, std::shared_ptr<TokenSink> sink) override;
  void Cancel(RequestId request) override;
  void Wake() override;
  EngineStats Stats() const override;
  std::vector<RankStats> Ranks() const override { return options_.ranks ? options_.ranks() : std::vector<RankStats>(); }

  // One step: submits plans until as many as may be are in flight, or nothing is left to plan, and takes in the result of
  // the oldest. False when there was nothing to do. Requires: no own thread.
  bool Step();
  // Checks what is known of blocks, for simulations. Requires: no own thread.
  void CheckBlocks() const { scheduler_.CheckBlocks(); }
  // Refuses new requests, ends those alive with kCancelled and joins the thread. Calling it again does nothing.
  void Shutdown();

  const ExecutorLimits& limits() const { return executor_->limits(); }
  // The longest sequence that can be served, prompt and answer together.
  std::int32_t context() const { return scheduler_.capacity(); }

 private:
  // A request from when the engine took it until its end.
  struct Live {
    RequestId request = {};
    std::uint32_t epoch = 0;
    std::int32_t prompt_tokens = 0;
    std::shared_ptr<TokenSink> sink = {};
    std::int64_t submitted_ns = 0;
    std::int64_t first_step_ns = -1;
    std::int64_t first_token_ns = -1;
    // Of counts_, when it came or had its last token.
    std::uint64_t steps_ns = 0, communication_ns = 0;
  };

  // A plan whose result has not come yet.
  struct Submitted {
    const scheduler::StepPlan* plan = nullptr;
    std::uint64_t prompt_tokens = 0;
  };

  Engine(std::unique_ptr<Executor> executor, EngineOptions options, const scheduler::Policy& policy,
         const scheduler::SchedulerLimits& limits, const Clock& clock);

  void Loop();
  bool StepOnce();
  bool SubmitNext();
  void CommitOldest();
  void TakeArrivals();
  void PauseThoseWithoutRoom();
  std::uint64_t NoteFirstSteps(const scheduler::StepPlan& plan, std::int64_t now_ns);
  void Publish();
  void PublishOne(scheduler::SchedulerEvent& event, std::int64_t now_ns);
  void End(SequenceId sequence, FinishedEvent event);
  void CountStepTokens(std::uint64_t tokens);
  void PublishStats();
  void EndEverything();

  std::unique_ptr<Executor> executor_;
  const EngineOptions options_;
  const Clock& clock_;
  scheduler::Scheduler scheduler_;
  Inbox inbox_;
  std::unordered_map<std::uint64_t, Live> live_;          // by SequenceId
  std::unordered_map<std::uint64_t, SequenceId> sequence_of_;  // by RequestId
  std::uint64_t last_sequence_ = 0;
  std::vector<Submitted> submitted_;                      // the oldest first
  EngineStats counts_;                                    // the engine thread's own
  std::vector<Arrival> arrivals_;                         // storage of TakeArrivals
  std::vector<RequestId> cancels_;
  bool ended_ = false;

  mutable std::mutex stats_mutex_;
  EngineStats stats_;  // under stats_mutex_: counts_ as of the last step

  std::mutex shutdown_mutex_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace skein::engine
