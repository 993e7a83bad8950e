// SPDX-License-Identifier: Apache-2.0
//
// Serving is what all routes share: the engine, the model's card, the queue of requests, the counts. Made by Server,
// owned by the I/O thread, and outlived by nothing of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine_client.h"
#include "server/http/timer.h"
#include "server/metrics.h"
#include "server/openai/admission.h"
#include "server/openai/mailbox.h"
#include "server/openai/model_card.h"
#include "server/openai/text_pool.h"

namespace skein::server {

class Embedding;
class Generation;
struct HttpRequest;

// The two ways to run something on the I/O thread.
struct IoThread {
  std::function<void(std::function<void()>)> post;                               // any thread
  std::function<Timer(std::chrono::nanoseconds, std::function<void()>)> after;  // I/O thread; see timer.h
};

// What a request's line in the log says beside its HTTP side. Times are in milliseconds since its arrival.
struct AccessFigures {
  std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  double queue_ms = 0, first_token_ms = 0;
  std::string finish_reason;
  std::string prompts;  // only with --log-prompts
};

struct Serving {
  engine::EngineClient& engine;
  const ModelCard& card;
  const Clock& clock;
  IoThread io;
  bool reasoning = false;    // the model's template knows <think>
  bool log_prompts = false;
  Admission admission;
  Metrics metrics;
  TextPool pool;
  std::shared_ptr<Mailbox> mailbox = {};

  std::unordered_map<const HttpRequest*, std::shared_ptr<Generation>> generations = {};  // those that have not ended
  std::unordered_map<const HttpRequest*, std::shared_ptr<Embedding>> embeddings = {};    // likewise
  std::unordered_map<const HttpRequest*, AccessFigures> figures = {};  // of answers that end now, until they are logged
  std::function<void()> on_generation_end = {};                      // for whoever waits until nothing runs
  bool draining = false;
  std::uint64_t request_count = 0;   // ids of the engine's requests
  double mean_request_s = 1;         // how long answers took lately; for Retry-After

  RequestId NextRequest() { return {++request_count}; }
  // Seconds after which another try is likely to find a place, at least 1.
  int RetryAfterSeconds() const;
};

// An id of an answer: "chatcmpl-" and 24 random hexadecimal digits.
std::string AnswerId(std::string_view prefix);

}  // namespace skein::server
