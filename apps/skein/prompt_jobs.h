// SPDX-License-Identifier: Apache-2.0
//
// Many prompts through the engine, several at once, for what they say about their own tokens: scores (perplexity,
// multiple choice) or logits. The same requests and steps that serve answers.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "api/loaded_model.h"
#include "base/ids.h"
#include "base/status.h"
#include "skein/engine.h"

namespace skein::app {

struct PromptJobs {
  std::size_t count = 0;
  std::function<std::vector<TokenId>(std::size_t job)> prompt;
  engine::PromptOutput output = engine::PromptOutput::kScores;
  std::size_t in_flight = 4;
  std::size_t events_waiting = 4096;  // of one job, before it pauses
  // Called on the calling thread: jobs in order, positions of a job in order.
  std::function<Status(std::size_t job, const engine::PromptEvent& event)> on_event;
  const Cancellation* cancellation = nullptr;
};

Status RunPromptJobs(api::LoadedModel& loaded, const PromptJobs& jobs);

}  // namespace skein::app
