// SPDX-License-Identifier: Apache-2.0
//
// How routes answer: with the client's traceparent, and with Retry-After where another try may help.
#pragma once

#include "base/status.h"
#include "server/http/exchange.h"
#include "server/openai/api_error.h"
#include "server/openai/serving.h"

namespace skein::server {

void Answer(Exchange& exchange, HttpResponse response);
void AnswerJson(Exchange& exchange, std::string body);
HttpResponse ResponseOf(const ApiError& error, const Serving& serving);

// Why a request for work is refused at the door: no new work while draining, no place.
ApiError DrainingError();
ApiError QueueFullError(const Serving& serving);
// Why the engine or the text pool did not take what was let in. Full queues are 429 wherever they are, and counted.
ApiError NotTakenError(const Status& status, Serving& serving);

}  // namespace skein::server
