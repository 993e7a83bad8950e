// SPDX-License-Identifier: Apache-2.0
//
// How routes answer: with the client's traceparent, and with Retry-After where another try may help.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "engine/engine_client.h"
#include "server/http/exchange.h"
#include "server/openai/admission.h"
#include "server/openai/api_error.h"
#include "server/openai/serving.h"

namespace skein::server {

void Answer(Exchange& exchange, HttpResponse response);
void AnswerJson(Exchange& exchange, std::string body);
HttpResponse ResponseOf(const ApiError& error, const Serving& serving);

// The door for all work: a place, or why there is none (draining, or all places taken, which is counted).
ApiResult<Admission::Place> EnterServer(Serving& serving);
// Why the engine or the text pool did not take what was let in. Full queues are 429 wherever they are, and counted.
ApiError NotTakenError(const Status& status, Serving& serving);

// What the client is told when a sequence did not end by itself; nothing when it did.
std::optional<ApiError> FailureOf(const engine::FinishedEvent& event);

}  // namespace skein::server
