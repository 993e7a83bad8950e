// SPDX-License-Identifier: Apache-2.0
#include "server/openai/routes.h"

#include <fmt/format.h>

#include <memory>
#include <stop_token>
#include <string_view>
#include <utility>

#include "base/json_writer.h"
#include "server/http/error_response.h"
#include "server/http/exchange.h"
#include "server/openai/answering.h"
#include "server/openai/chat_request.h"
#include "server/openai/completion_request.h"
#include "server/openai/embedding.h"
#include "server/openai/generation.h"
#include "server/openai/pool_work.h"
#include "server/openai/tokenize_request.h"

namespace skein::server {
namespace {

// Completions so short are read at once; a template may always take long.
constexpr std::size_t kCompletionInlineBytes = 4096;
constexpr std::size_t kChatInlineBytes = 0;

void WriteModel(const ModelCard& card, std::string_view id, JsonWriter& json) {
  json.BeginObject().Member("id", id).Member("object", "model").Member("created", card.created_s);
  json.Member("owned_by", "skein").Member("root", card.id).Member("max_model_len", card.context).EndObject();
}

void ListModels(Serving& serving, Exchange& exchange) {
  JsonWriter json;
  json.BeginObject().Member("object", "list").Key("data").BeginArray();
  WriteModel(serving.card, serving.card.id, json);
  for (const std::string& alias : serving.card.aliases) WriteModel(serving.card, alias, json);
  json.EndArray().EndObject();
  AnswerJson(exchange, json.Take());
}

void ShowModel(Serving& serving, Exchange& exchange) {
  const std::string_view id = exchange.request().rest;
  if (!serving.card.Serves(id)) {
    return Answer(exchange, ErrorResponse(404, fmt::format("there is no model {}; this server has {}",
                                                           id.substr(0, 100), serving.card.id),
                                          "model", "model_not_found"));
  }
  JsonWriter json;
  WriteModel(serving.card, id, json);
  AnswerJson(exchange, json.Take());
}

// Routes whose whole answer is made from the request's text.
void AnswerFromPool(Serving& serving, const std::shared_ptr<Exchange>& exchange,
                    ApiResult<std::string> (*work)(const HttpRequest&, const ModelCard&)) {
  const auto abandoned = std::make_shared<std::stop_source>();
  exchange->OnGone([abandoned] { abandoned->request_stop(); });
  const Status begun = RunOnPool<ApiResult<std::string>>(
      serving, exchange, abandoned->get_token(),
      [work, &card = serving.card](const HttpRequest& request) { return work(request, card); },
      [&serving, exchange](ApiResult<std::string> body) {
        if (body.ok()) {
          AnswerJson(*exchange, std::move(body).value());
        } else {
          Answer(*exchange, ResponseOf(body.error(), serving));
        }
      });
  if (!begun.ok()) Answer(*exchange, ResponseOf(NotTakenError(begun, serving), serving));
}

void TellReady(RouteContext& context, const std::shared_ptr<Exchange>& exchange) {
  context.readiness.Ask([exchange, &serving = context.serving](bool ready) {
    if (ready) return AnswerJson(*exchange, "{\"status\":\"ready\"}\r\n");
    const std::string_view why = serving.draining ? "the server is being stopped" : "the engine makes no steps";
    Answer(*exchange, ResponseOf({.status = 503, .message = std::string(why), .param = {}, .code = "not_ready"}, serving));
  });
}

void ShowMetrics(RouteContext& context, Exchange& exchange) {
  HttpResponse response;
  response.content_type = Metrics::kContentType;
  response.body = context.serving.metrics.Text(context.serving.engine.Stats(), context.gauges(), context.serving.engine.Ranks());
  Answer(exchange, std::move(response));
}

}  // namespace

Router MakeRouter(RouteContext& context) {
  using Shared = std::shared_ptr<Exchange>;
  Serving& serving = context.serving;
  // A whole line, for people and scripts that look at the raw answer.
  const Handler live = [](const Shared& exchange) { AnswerJson(*exchange, "{\"status\":\"live\"}\r\n"); };
  const Handler ready = [&context](const Shared& exchange) { TellReady(context, exchange); };
  Router router;
  router.Add({"POST", "/v1/chat/completions", Scope::kUser,
              [&serving](Shared exchange) { Generation::Begin(serving, std::move(exchange), &ParseChat, kChatInlineBytes); }});
  router.Add({"POST", "/v1/completions", Scope::kUser, [&serving](Shared exchange) {
                Generation::Begin(serving, std::move(exchange), &ParseCompletion, kCompletionInlineBytes);
              }});
  router.Add({"POST", "/v1/embeddings", Scope::kUser,
              [&serving](Shared exchange) { Embedding::Begin(serving, std::move(exchange)); }});
  router.Add({"GET", "/v1/models", Scope::kUser, [&serving](const Shared& exchange) { ListModels(serving, *exchange); }});
  router.Add({"GET", "/v1/models/{id}", Scope::kUser, [&serving](const Shared& exchange) { ShowModel(serving, *exchange); }});
  router.Add({"POST", "/tokenize", Scope::kUser,
              [&serving](const Shared& exchange) { AnswerFromPool(serving, exchange, &Tokenize); }});
  router.Add({"POST", "/detokenize", Scope::kUser,
              [&serving](const Shared& exchange) { AnswerFromPool(serving, exchange, &Detokenize); }});
  router.Add({"GET", "/metrics", Scope::kUser, [&context](const Shared& exchange) { ShowMetrics(context, *exchange); }});
  router.Add({"GET", "/version", Scope::kUser, [&context](const Shared& exchange) { AnswerJson(*exchange, context.version); }});
  router.Add({"GET", "/live", Scope::kOpen, live});
  router.Add({"GET", "/ready", Scope::kOpen, ready});
  router.Add({"GET", "/health", Scope::kOpen, ready});
  return router;
}

}  // namespace skein::server
