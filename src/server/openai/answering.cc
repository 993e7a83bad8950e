// SPDX-License-Identifier: Apache-2.0
#include "server/openai/answering.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "server/http/error_response.h"

namespace skein::server {

void Answer(Exchange& exchange, HttpResponse response) {
  if (const std::string& trace = exchange.request().traceparent; !trace.empty()) {
    response.headers.push_back({"traceparent", trace});
  }
  exchange.Respond(std::move(response));
}

void AnswerJson(Exchange& exchange, std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  Answer(exchange, std::move(response));
}

HttpResponse ResponseOf(const ApiError& error, const Serving& serving) {
  HttpResponse response = ErrorResponse(error.status, error.message, error.param, error.code);
  if (error.status == 429 || error.status == 503) {
    response.headers.push_back({"retry-after", std::to_string(serving.RetryAfterSeconds())});
  }
  return response;
}

ApiResult<Admission::Place> EnterServer(Serving& serving) {
  if (serving.draining) {
    return ApiError{.status = 503, .message = "the server is being stopped and takes no new work; ask another one", .param = {},
                    .code = "draining"};
  }
  if (std::optional<Admission::Place> place = serving.admission.TryEnter()) return std::move(*place);
  serving.metrics.OnRefusedFull();
  return ApiError{.status = 429,
                  .message = fmt::format("all places are taken: {} requests run and {} wait; try again in {} s",
                                         serving.admission.running(), serving.admission.waiting(), serving.RetryAfterSeconds()),
                  .param = {}, .code = "queue_full"};
}

ApiError NotTakenError(const Status& status, Serving& serving) {
  ApiError error = ApiErrorOf(status);
  if (status.code() != Code::kUnavailable || serving.draining) return error;
  serving.metrics.OnRefusedFull();
  error.status = 429;
  error.code = "queue_full";
  return error;
}

std::optional<ApiError> FailureOf(const engine::FinishedEvent& event) {
  if (event.reason == engine::FinishReason::kError) {
    return ApiError{.status = 500, .message = event.error.empty() ? "a step of the engine failed" : event.error,
                    .param = {}, .code = {}};
  }
  if (event.reason == engine::FinishReason::kCancelled) {
    return ApiError{.status = 503, .message = "the server was stopped before the answer was done", .param = {}, .code = {}};
  }
  return std::nullopt;
}

}  // namespace skein::server
