// SPDX-License-Identifier: Apache-2.0
#include "prompt_jobs.h"

#include <chrono>
#include <deque>
#include <memory>

#include "engine/token_sink.h"

namespace skein::app {
namespace {

struct Running {
  RequestId request;
  std::size_t job;
  std::shared_ptr<engine::BoundedSink> sink;
};

Result<Running> Begin(api::LoadedModel& loaded, const PromptJobs& jobs, std::size_t job) {
  Running running{loaded.NextRequest(), job, std::make_shared<engine::BoundedSink>(jobs.events_waiting)};
  running.sink->SetOnRoom([&client = loaded.client()] { client.Wake(); });
  engine::RequestSpec spec;
  spec.request = running.request;
  spec.tokens = jobs.prompt(job);
  spec.prompt_tokens = static_cast<std::int32_t>(spec.tokens.size());
  spec.prompt_output = jobs.output;
  spec.logprobs = true;
  SKEIN_RETURN_IF_ERROR(loaded.client().Submit(std::move(spec), running.sink));
  return running;
}

// Takes the events of one job until its end.
Status Drain(const Running& running, const PromptJobs& jobs) {
  while (true) {
    const std::optional<engine::SinkEvent> event = running.sink->WaitForEvent(std::chrono::milliseconds(50));
    if (jobs.cancellation != nullptr && jobs.cancellation->cancelled()) return Status(Code::kCancelled, "interrupted");
    if (!event) continue;
    if (const auto* prompt = std::get_if<engine::PromptEvent>(&*event)) {
      SKEIN_RETURN_IF_ERROR(jobs.on_event(running.job, *prompt));
    } else if (const auto* finished = std::get_if<engine::FinishedEvent>(&*event)) {
      return finished->reason == engine::FinishReason::kError ? InternalError(finished->error) : OkStatus();
    }
  }
}

}  // namespace

Status RunPromptJobs(api::LoadedModel& loaded, const PromptJobs& jobs) {
  std::deque<Running> running;
  Status status;
  for (std::size_t next = 0; status.ok() && (next < jobs.count || !running.empty());) {
    while (next < jobs.count && running.size() < jobs.in_flight) {
      Result<Running> begun = Begin(loaded, jobs, next);
      if (!begun.ok()) {
        status = begun.status();
        break;
      }
      running.push_back(std::move(begun).value());
      ++next;
    }
    if (!status.ok() || running.empty()) break;
    status = Drain(running.front(), jobs);
    if (status.ok()) running.pop_front();
  }
  for (const Running& left : running) loaded.client().Cancel(left.request);
  return status;
}

}  // namespace skein::app
