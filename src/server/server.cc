// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <fmt/format.h>

#include <latch>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "server/http/http_server.h"
#include "server/http/router.h"
#include "server/openai/embedding.h"
#include "server/openai/generation.h"
#include "server/openai/routes.h"
#include "server/openai/serving.h"
#include "server/span_exporter.h"

namespace skein::server {
namespace {

std::string VersionJson(const ServerOptions& options) {
  JsonWriter json;
  json.BeginObject().Member("version", options.version).Member("commit", options.commit).EndObject();
  return json.Take();
}

}  // namespace

class Server::Impl {
 public:
  Impl(ServerOptions given, engine::EngineClient& engine, const Clock& clock, const Logger& log)
      : options(std::move(given)),
        logger(log),
        serving{.engine = engine,
                .card = options.card,
                .clock = clock,
                .io = {.post = [this](std::function<void()> work) { http->Post(std::move(work)); },
                       .after = [this](std::chrono::nanoseconds delay,
                                       std::function<void()> work) { return http->After(delay, std::move(work)); }},
                .reasoning = options.reasoning,
                .log_prompts = options.log_prompts,
                .admission = Admission(options.running_max, options.waiting_max),
                .metrics = Metrics(options.card.id, options.card.context),
                .pool = TextPool()},
        readiness(serving),
        context{.serving = serving,
                .readiness = readiness,
                .version = VersionJson(options),
                .gauges = [this] { return Gauges(); }} {
    serving.mailbox = Mailbox::Create(serving.io.post, [&engine] { engine.Wake(); });
    serving.on_generation_end = [this] { TellIfDrained(); };
  }

  // The first requests may come before Start has the HttpServer in hand.
  Router RouterThatWaits() {
    const Router made = MakeRouter(context);
    Router router;
    for (Route route : made.routes()) {
      route.handler = [this, handler = std::move(route.handler)](std::shared_ptr<Exchange> exchange) {
        started.wait();
        handler(std::move(exchange));
      };
      router.Add(std::move(route));
    }
    return router;
  }

  ServerGauges Gauges() const {
    return {.requests_waiting = serving.admission.waiting(),
            .requests_running = serving.admission.running(),
            .connections = http->connections(),
            .streams = http->streams(),
            .text_work_waiting = serving.pool.waiting(),
            .log_lines_lost = logger.lines_lost(),
            .draining = serving.draining};
  }

  void TellIfDrained() {
    if (!serving.draining || !serving.generations.empty() || !serving.embeddings.empty() || !drained) return;
    // What was generated may still be on its way to a client that reads slowly.
    http->WhenAnswered(std::exchange(drained, nullptr));
  }

  void OnAnswer(const AnswerNote& note);
  void Trace(const AnswerNote& note, const AccessFigures& figures);

  ServerOptions options;
  const Logger& logger;
  Serving serving;
  Readiness readiness;
  RouteContext context;
  std::function<void()> drained;  // I/O thread
  std::unique_ptr<SpanExporter> spans;  // null: no traces
  std::latch started{1};
  bool stopped = false;
  std::unique_ptr<HttpServer> http;  // last: its thread uses all of the above
};

// One line for every answer, whatever became of it.
void Server::Impl::OnAnswer(const AnswerNote& note) {
  serving.metrics.OnHttp(note.route.empty() ? "other" : note.route, note.status);
  AccessFigures figures;
  const auto found = serving.figures.find(note.request);
  const auto alive = serving.generations.find(note.request);
  const bool generated = found != serving.figures.end() || alive != serving.generations.end();
  if (found != serving.figures.end()) {
    figures = std::move(found->second);
    serving.figures.erase(found);
  } else if (generated) {
    figures = alive->second->FiguresWhenGone();
  }
  if (spans != nullptr && note.request != nullptr) Trace(note, figures);
  if (!logger.Wants(LogLevel::kInfo)) return;
  // Probes and scrapes come every few seconds and say nothing.
  const bool probe = note.route == "/live" || note.route == "/ready" || note.route == "/health" || note.route == "/metrics";
  if (probe && note.status == 200 && !logger.Wants(LogLevel::kDebug)) return;
  const double total_ms = std::chrono::duration<double, std::milli>(note.duration).count();
  std::vector<LogField> fields{{"status", std::int64_t{note.status}}, {"total_ms", total_ms}};
  if (note.request != nullptr) {
    fields.insert(fields.begin(), {{"id", std::string_view(note.request->id)},
                                   {"method", std::string_view(note.request->method)},
                                   {"route", note.route.empty() ? std::string_view("other") : note.route}});
    if (!note.request->tenant.empty()) fields.push_back({"tenant", std::string_view(note.request->tenant)});
    if (!note.request->traceparent.empty()) fields.push_back({"traceparent", std::string_view(note.request->traceparent)});
  }
  if (note.cut) fields.push_back({"cut", std::int64_t{1}});
  if (generated) {
    fields.push_back({"finish", std::string_view(figures.finish_reason)});
    fields.push_back({"prompt_tokens", figures.prompt_tokens});
    fields.push_back({"completion_tokens", figures.completion_tokens});
    fields.push_back({"cached_tokens", figures.cached_tokens});
    fields.push_back({"queue_ms", figures.queue_ms});
    fields.push_back({"ttft_ms", figures.first_token_ms});
    if (!figures.prompts.empty()) fields.push_back({"prompt", std::string_view(figures.prompts)});
  }
  logger.Write(LogLevel::kInfo, "request", fields);
}

// Requests for work only; names as OpenTelemetry's conventions for generative AI have them.
void Server::Impl::Trace(const AnswerNote& note, const AccessFigures& figures) {
  const std::string_view operation = note.route == "/v1/chat/completions" ? "chat"
                                     : note.route == "/v1/completions"    ? "text_completion"
                                     : note.route == "/v1/embeddings"     ? "embeddings"
                                                                          : "";
  if (operation.empty()) return;
  const auto now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch());
  Span span;
  span.name = fmt::format("{} {}", operation, options.card.id);
  span.traceparent = note.request->traceparent;
  span.end_unix_ns = now_ns.count();
  span.begin_unix_ns = (now_ns - note.duration).count();
  span.attributes = {{"gen_ai.operation.name", std::string(operation)},
                     {"gen_ai.provider.name", std::string("skein")},
                     {"gen_ai.request.model", options.card.id},
                     {"http.response.status_code", std::int64_t{note.status}},
                     {"skein.request.id", note.request->id},
                     {"gen_ai.usage.input_tokens", figures.prompt_tokens},
                     {"gen_ai.usage.output_tokens", figures.completion_tokens},
                     {"skein.usage.cached_tokens", figures.cached_tokens},
                     {"skein.queue_ms", figures.queue_ms},
                     {"skein.time_to_first_token_ms", figures.first_token_ms}};
  if (!figures.finish_reason.empty()) span.attributes.push_back({"gen_ai.response.finish_reason", figures.finish_reason});
  if (note.status >= 500 || note.cut) span.error = note.cut ? "the client left" : "the server failed";
  spans->Add(std::move(span));
}

Result<std::unique_ptr<Server>> Server::Start(ServerOptions options, engine::EngineClient& engine, const Clock& clock,
                                              const Logger& log) {
  auto impl = std::make_unique<Impl>(std::move(options), engine, clock, log);
  Impl& made = *impl;
  if (!made.options.otlp_endpoint.empty()) {
    SKEIN_ASSIGN_OR_RETURN(made.spans, SpanExporter::Create({.endpoint = made.options.otlp_endpoint, .service = made.options.otlp_service}));
  }
  HttpOptions http = made.options.http;
  http.log = [&log](LogLevel level, std::string_view text) { log.Write(level, text); };
  http.on_answer = [&made](const AnswerNote& note) { made.OnAnswer(note); };
  SKEIN_ASSIGN_OR_RETURN(made.http, HttpServer::Start(std::move(http), made.RouterThatWaits()));
  made.started.count_down();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() { Stop(); }

std::string Server::url() const { return impl_->http->url(); }

void Server::Drain(std::function<void()> drained) {
  impl_->http->Post([impl = impl_.get(), drained = std::move(drained)] {
    impl->serving.draining = true;
    impl->drained = drained;
    impl->http->StopAccepting();
    impl->TellIfDrained();
  });
}

// First what posts to the I/O thread, then that thread, then what it owned: afterwards nobody is left to call.
void Server::Stop() {
  if (std::exchange(impl_->stopped, true)) return;
  impl_->serving.pool.Stop();
  impl_->serving.mailbox->Close();
  impl_->http->Stop();
  impl_->serving.on_generation_end = nullptr;
  impl_->serving.admission.Close();
  impl_->serving.generations.clear();
  impl_->serving.embeddings.clear();
}

}  // namespace skein::server
