// SPDX-License-Identifier: Apache-2.0
//
// The engine's loop.
#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "scheduler/policies/registry.h"

namespace skein::engine {

scheduler::SequenceState StateOf(RequestSpec request) {
  return {.sequence = {},
          .tokens = std::move(request.tokens),
          .prompt_tokens = request.prompt_tokens,
          .max_tokens = request.max_tokens,
          .min_tokens = request.min_tokens,
          .choice = request.choice,
          .sampling = std::move(request.sampling),
          .stop_tokens = std::move(request.stop_tokens),
          .ignore_stop_tokens = request.ignore_stop_tokens,
          .logprobs = request.logprobs,
          .top_logprobs = request.top_logprobs,
          .prompt_output = request.prompt_output,
          .priority = request.priority,
          .deadline_ns = request.deadline_ns,
          .tenant = std::move(request.tenant),
          .cache_salt = std::move(request.cache_salt)};
}

bool Engine::StepOnce() {
  while (SubmitNext()) {
  }
  const bool works = !submitted_.empty();
  if (works) {
    CommitOldest();
  } else {
    Publish();
  }
  PublishStats();
  return works;
}

// Plans one more step with what arrived until now. False when nothing is left to plan, or enough is in flight.
bool Engine::SubmitNext() {
  if (submitted_.size() == static_cast<std::size_t>(executor_->limits().plans_in_flight)) return false;
  TakeArrivals();
  PauseThoseWithoutRoom();
  const std::int64_t now_ns = clock_.NowNs();
  const scheduler::StepPlan& plan = scheduler_.PlanStep(now_ns);
  if (plan.rows.empty()) return false;
  submitted_.push_back({.plan = &plan, .prompt_tokens = NoteFirstSteps(plan, now_ns)});
  executor_->Submit(plan);
  return true;
}

// Waits for the oldest plan in flight and takes its result in.
void Engine::CommitOldest() {
  const Submitted oldest = submitted_.front();
  submitted_.erase(submitted_.begin());
  scheduler::StepResult result = executor_->Wait();
  counts_.step_ns += result.compute_ns;
  counts_.communication_ns += result.communication_ns;
  scheduler_.Commit(*oldest.plan, std::move(result));
  executor_->Recycle(std::move(result));  // Commit leaves its storage
  ++counts_.steps;
  const std::uint64_t generated_before = counts_.generated_tokens;
  Publish();
  CountStepTokens(oldest.prompt_tokens + counts_.generated_tokens - generated_before);
}

void Engine::TakeArrivals() {
  inbox_.TakeAll(arrivals_, cancels_);
  const std::int64_t now_ns = arrivals_.empty() ? 0 : clock_.NowNs();
  for (Arrival& arrival : arrivals_) {
    const SequenceId sequence{++last_sequence_};
    arrival.state.sequence = sequence;
    sequence_of_.emplace(arrival.request.value, sequence);
    live_.emplace(sequence.value, Live{.request = arrival.request,
                                       .epoch = arrival.epoch,
                                       .prompt_tokens = arrival.state.prompt_tokens,
                                       .sink = std::move(arrival.sink),
                                       .submitted_ns = arrival.submitted_ns,
                                       .steps_ns = counts_.step_ns,
                                       .communication_ns = counts_.communication_ns});
    const Status added = scheduler_.Add(std::move(arrival.state), now_ns);
    if (!added.ok()) {
      SKEIN_CHECK(added.code() == Code::kUnavailable);  // for the rest Submit has asked the scheduler already
      End(sequence, {.reason = FinishReason::kError, .error = std::string(added.message()), .refused = true});
    }
  }
  arrivals_.clear();
  for (const RequestId request : cancels_) {
    if (const auto found = sequence_of_.find(request.value); found != sequence_of_.end()) {
      scheduler_.Cancel(found->second);
    }
  }
}

void Engine::PauseThoseWithoutRoom() {
  for (const auto& [sequence, live] : live_) scheduler_.SetPaused({sequence}, !live.sink->HasRoom());
}

// Returns how many tokens of prompts the plan has.
std::uint64_t Engine::NoteFirstSteps(const scheduler::StepPlan& plan, std::int64_t now_ns) {
  for (const scheduler::SequenceStart& start : plan.starts) {
    Live& live = live_.at(start.sequence.value);
    if (live.first_step_ns < 0) live.first_step_ns = now_ns;
  }
  std::uint64_t prompt_tokens = 0;
  for (const scheduler::PlanRow& row : plan.rows) {
    const std::int32_t prompt_left = live_.at(row.sequence.value).prompt_tokens - row.first_position;
    prompt_tokens += static_cast<std::uint64_t>(std::clamp(prompt_left, 0, static_cast<std::int32_t>(row.tokens.size())));
  }
  counts_.prompt_tokens += prompt_tokens;
  return prompt_tokens;
}

void Engine::Publish() {
  std::vector<scheduler::SchedulerEvent>& events = scheduler_.events();
  const std::int64_t now_ns = events.empty() ? 0 : clock_.NowNs();
  for (scheduler::SchedulerEvent& event : events) PublishOne(event, now_ns);
  events.clear();
}

void Engine::PublishOne(scheduler::SchedulerEvent& event, std::int64_t now_ns) {
  using Kind = scheduler::SchedulerEvent::Kind;
  const auto found = live_.find(event.sequence.value);
  SKEIN_CHECK(found != live_.end());
  Live& live = found->second;
  switch (event.kind) {
    case Kind::kPrompt:
      live.sink->OnPrompt({.request = live.request,
                           .epoch = live.epoch,
                           .first_position = event.first_position,
                           .scores = std::move(event.scores),
                           .logits = std::move(event.logits),
                           .hidden = std::move(event.hidden)});
      return;
    case Kind::kToken:
      if (live.first_token_ns < 0) live.first_token_ns = now_ns;
      ++counts_.generated_tokens;
      live.sink->OnToken({.request = live.request,
                          .epoch = live.epoch,
                          .index = event.index,
                          .token = std::move(event.token),
                          .steps_ns = static_cast<std::int64_t>(counts_.step_ns - std::exchange(live.steps_ns, counts_.step_ns)),
                          .communication_ns = static_cast<std::int64_t>(
                              counts_.communication_ns - std::exchange(live.communication_ns, counts_.communication_ns))});
      return;
    case Kind::kFinished:
      End(event.sequence, {.reason = event.reason,
                           .error = std::move(event.error),
                           .cached_tokens = event.cached,
                           .generated_tokens = event.generated});
      return;
  }
}

// The last event of a sequence; what the engine itself knows is filled in here.
void Engine::End(SequenceId sequence, FinishedEvent event) {
  const auto found = live_.find(sequence.value);
  SKEIN_CHECK(found != live_.end());
  const Live ended = std::move(found->second);
  live_.erase(found);
  sequence_of_.erase(ended.request.value);
  inbox_.Forget(ended.request);  // before the sink hears of it, so that it may submit the request again
  const std::int64_t now_ns = clock_.NowNs();
  const auto since_submit = [&](std::int64_t at_ns) { return at_ns < 0 ? 0 : at_ns - ended.submitted_ns; };
  event.request = ended.request;
  event.epoch = ended.epoch;
  event.prompt_tokens = ended.prompt_tokens;
  event.queued_ns = since_submit(ended.first_step_ns < 0 ? now_ns : ended.first_step_ns);
  event.first_token_ns = since_submit(ended.first_token_ns);
  event.total_ns = since_submit(now_ns);
  ended.sink->OnFinished(std::move(event));
}

void Engine::CountStepTokens(std::uint64_t tokens) {
  const auto bound = std::ranges::lower_bound(kStepTokenBounds, static_cast<double>(tokens));
  ++counts_.step_tokens[static_cast<std::size_t>(bound - kStepTokenBounds.begin())];
}

void Engine::PublishStats() {
  counts_.preemptions = scheduler_.counts().preemptions;
  counts_.refusals = scheduler_.counts().refusals;
  counts_.prefix_queries = scheduler_.counts().prefix_queries;
  counts_.prefix_hits = scheduler_.counts().prefix_hits;
  counts_.paused = static_cast<std::uint32_t>(scheduler_.paused_count());
  counts_.blocks_cached = scheduler_.pool().cached_count();
  counts_.block_tokens = static_cast<std::uint32_t>(executor_->limits().block_tokens);
  counts_.places_unused = scheduler_.UnusedPlaces();
  counts_.running = static_cast<std::uint32_t>(scheduler_.running_count());
  counts_.waiting = static_cast<std::uint32_t>(scheduler_.waiting_count());
  counts_.blocks_total = scheduler_.pool().block_count();
  counts_.blocks_held = scheduler_.pool().held_count();
  const std::lock_guard lock(stats_mutex_);
  stats_ = counts_;
}

Result<std::unique_ptr<Engine>> Engine::Create(std::unique_ptr<Executor> executor, EngineOptions options,
                                               const Clock& clock) {
  SKEIN_CHECK(executor != nullptr);
  const ExecutorLimits& given = executor->limits();
  SKEIN_ASSIGN_OR_RETURN(const scheduler::Policy* policy, scheduler::FindPolicy(options.policy));
  if (options.sequences < 1) {
    return InvalidArgument(fmt::format("{} sequences in one step, expected 1 or more", options.sequences),
                           "max-num-seqs");
  }
  if (options.step_target_ns < 0) {
    return InvalidArgument(fmt::format("a step target of {} ns, expected 0 (off) or more", options.step_target_ns),
                           "step-target");
  }
  if (options.requests < 1 || options.inbox_requests < 1) {
    return InvalidArgument("an engine needs room for at least one request", "max-queue");
  }
  if (given.vocabulary < 1 || given.context < 1 || given.blocks < 1 || given.block_tokens < 1 ||
      given.step_tokens < 1 || given.step_outputs < 1 || given.plans_in_flight < 1) {
    return InvalidArgument(
        fmt::format("an executor's limits must be positive: vocabulary {}, context {}, blocks {} of {} tokens, {} tokens "
                    "and {} outputs in one step",
                    given.vocabulary, given.context, given.blocks, given.block_tokens, given.step_tokens,
                    given.step_outputs));
  }
  const scheduler::SchedulerLimits limits{.vocabulary = given.vocabulary,
                                          .context = given.context,
                                          .blocks = given.blocks,
                                          .block_tokens = given.block_tokens,
                                          .step_tokens = given.step_tokens,
                                          .step_outputs = given.step_outputs,
                                          .sequences = options.sequences,
                                          .plans_in_flight = given.plans_in_flight,
                                          .step_target_ns = options.step_target_ns,
                                          .cost = options.step_cost,
                                          .prefix_cache = options.prefix_cache,
                                          .prefix_secret = options.prefix_secret,
                                          .prefix_fingerprint = options.prefix_fingerprint};
  std::unique_ptr<Engine> engine(new Engine(std::move(executor), std::move(options), *policy, limits, clock));
  if (engine->options_.own_thread) {
    engine->thread_ = std::thread([raw = engine.get()] { raw->Loop(); });
  }
  return engine;
}

Engine::Engine(std::unique_ptr<Executor> executor, EngineOptions options, const scheduler::Policy& policy,
               const scheduler::SchedulerLimits& limits, const Clock& clock)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      clock_(clock),
      scheduler_(limits, policy),
      inbox_(options_.inbox_requests, options_.requests) {
  submitted_.reserve(static_cast<std::size_t>(executor_->limits().plans_in_flight));
  PublishStats();
}

Engine::~Engine() { Shutdown(); }

Status Engine::Submit(RequestSpec request, std::shared_ptr<TokenSink> sink) {
  SKEIN_CHECK(sink != nullptr);
  Arrival arrival{.request = request.request,
                  .epoch = request.epoch,
                  .state = StateOf(std::move(request)),
                  .sink = std::move(sink),
                  .submitted_ns = clock_.NowNs()};
  SKEIN_RETURN_IF_ERROR(scheduler_.Check(arrival.state));  // reads nothing that the engine thread changes
  return inbox_.Submit(std::move(arrival));
}

void Engine::Cancel(RequestId request) { inbox_.Cancel(request); }

void Engine::Wake() { inbox_.Wake(); }

EngineStats Engine::Stats() const {
  const std::lock_guard lock(stats_mutex_);
  return stats_;
}

bool Engine::Step() {
  SKEIN_CHECK(!options_.own_thread);
  SKEIN_CHECK(!ended_);
  return StepOnce();
}

void Engine::Loop() {
  while (!inbox_.closed()) {
    if (StepOnce()) continue;
    if (scheduler_.paused_count() > 0) {
      inbox_.WaitForWork(options_.paused_look_ns);
    } else {
      inbox_.WaitForWork(std::nullopt);
    }
  }
  EndEverything();
}

void Engine::Shutdown() {
  const std::lock_guard lock(shutdown_mutex_);
  inbox_.Close();
  if (thread_.joinable()) {
    thread_.join();
  } else if (!options_.own_thread && !ended_) {
    EndEverything();
  }
}

// Cancels whatever is alive. Runs on the engine thread, or on the owner's when there is none.
void Engine::EndEverything() {
  ended_ = true;
  TakeArrivals();
  std::vector<SequenceId> sequences;
  for (const auto& [sequence, live] : live_) sequences.push_back({sequence});
  std::sort(sequences.begin(), sequences.end());
  for (const SequenceId sequence : sequences) scheduler_.Cancel(sequence);
  while (!submitted_.empty()) CommitOldest();  // then those in flight have ended, too
  Publish();
  PublishStats();
}

}  // namespace skein::engine
