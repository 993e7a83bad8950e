// SPDX-License-Identifier: Apache-2.0
//
// Server is the whole of `skein serve` above the engine: it listens, answers, counts and drains. The engine is given to
// it through EngineClient; what it serves is on a ModelCard.
//
// Thread rule: Start, Stop and the destructor by the owner; the rest by any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "engine/engine_client.h"
#include "server/http/http_options.h"
#include "server/openai/model_card.h"

namespace skein::server {

struct ServerOptions {
  HttpOptions http;                   // its callbacks are set by the server
  ModelCard card;
  std::size_t running_max = 256;      // requests admitted at once
  std::size_t waiting_max = 512;      // requests that wait; beyond: 429
  bool reasoning = false;             // the model's template knows <think>
  bool log_prompts = false;
  std::string version, commit;        // for /version
  std::string otlp_endpoint;          // a collector of traces (SpanExporter); empty: none
  std::string otlp_service = "skein";
};

class Server {
 public:
  // Listens when it returns. `engine`, `clock` and `log` outlive the server.
  static Result<std::unique_ptr<Server>> Start(ServerOptions options, engine::EngineClient& engine, const Clock& clock,
                                               const Logger& log);
  // Stop.
  ~Server();

  std::string url() const;
  // /ready says no and new work is refused from now on; what runs or waits goes on. `drained` is called on the I/O
  // thread once nothing is left.
  void Drain(std::function<void()> drained);
  // Cuts every connection, ends what runs, joins. Calling it again does nothing.
  void Stop();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace skein::server
