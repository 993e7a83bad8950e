// SPDX-License-Identifier: Apache-2.0
//
// From a prompt's ids to an Answer: submits a request, turns its tokens into text as they come, watches for stop
// texts, and ends it when whoever asked wants no more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "engine/engine_client.h"
#include "skein/engine.h"
#include "text/tokenizer.h"

namespace skein::api {

struct Question {
  RequestId request;
  std::span<const TokenId> prompt;
  std::span<const TokenId> stop_tokens;
  const GenerateOptions& options;
  const PieceCallback& callback;
  const Cancellation* cancellation = nullptr;
};

Result<Answer> AnswerQuestion(engine::EngineClient& client, const text::Tokenizer& tokenizer, const Question& question);

}  // namespace skein::api
