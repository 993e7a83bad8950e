// SPDX-License-Identifier: Apache-2.0
//
// Generation is one request for text from its arrival to its end: it takes a place, has the body read on the text pool,
// waits until it may run, submits one engine request for every choice, and turns what comes back into an answer, whole
// or as events. Its head is held back until the engine has made something, so that whatever fails before still gets a
// proper status. However it ends (done, refused, failed, client gone, deadline) its place is given back and its engine
// requests are cancelled exactly once.
//
// Owned by the I/O thread; kept alive by Serving::generations until it ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"
#include "server/openai/admission.h"
#include "server/openai/answer_json.h"
#include "server/openai/api_error.h"
#include "server/openai/choice_text.h"
#include "server/openai/generation_request.h"
#include "server/openai/mailbox.h"
#include "server/openai/serving.h"

namespace skein::server {

class Generation final : public ChoiceOwner, public std::enable_shared_from_this<Generation> {
 public:
  using Parse = ApiResult<GenerationRequest> (*)(const HttpRequest& request, const ModelCard& card);

  // Bodies of at most `inline_bytes` are read on the I/O thread at once.
  static void Begin(Serving& serving, std::shared_ptr<Exchange> exchange, Parse parse, std::size_t inline_bytes);

  // What there is to say of a request whose client has gone.
  AccessFigures FiguresWhenGone() const;

  void OnEvent(std::size_t choice, engine::SinkEvent event) override;
  void OnBatchEnd() override;

 private:
  struct Choice {
    RequestId request;
    std::size_t prompt = 0;
    std::shared_ptr<ChoiceSink> sink;
    std::unique_ptr<ChoiceText> text;
    std::vector<scheduler::ScoredToken> prompt_scores;
    WholeChoice whole;                 // of an answer that is not streamed
    bool opened = false;               // its first piece has been begun
    bool finished = false;             // the engine has nothing more for it
    std::int64_t first_token_ns = 0, last_token_ns = 0;
    std::int32_t cached_tokens = 0;
  };

  Generation(Serving& serving, std::shared_ptr<Exchange> exchange);

  // In order of a request's life.
  void Read(Parse parse, std::size_t inline_bytes);
  void OnRead(ApiResult<GenerationRequest> request);
  void Start();
  Status SubmitAll();
  engine::RequestSpec SpecOf(const Choice& choice, std::int32_t index) const;
  void OnToken(Choice& choice, std::size_t index, scheduler::ScoredToken token);
  void OnFinished(Choice& choice, std::size_t index, const engine::FinishedEvent& event);
  void OpenChoice(Choice& choice, std::size_t index, ChoicePiece& piece);
  void EmitPiece(std::size_t index, const ChoicePiece& piece);
  void BeginStream();
  void Complete();

  void OnGone();
  void OnRoom();
  void OnDeadline();
  void Refuse(const ApiError& error);
  void End(std::string_view unfinished_reason);

  AccessFigures FiguresNow() const;
  Usage UsageSoFar() const;
  double SecondsSinceArrival(std::int64_t at_ns) const;
  bool ended() const { return exchange_ == nullptr; }

  Serving& serving_;
  std::shared_ptr<Exchange> exchange_;  // nullptr once ended
  const std::int64_t arrived_ns_;
  std::int64_t submitted_ns_ = 0;
  std::stop_source abandoned_;  // of the work on the text pool
  Timer deadline_;
  std::optional<Admission::Place> place_;
  std::optional<GenerationRequest> request_;
  std::optional<AnswerWriter> writer_;
  std::vector<Choice> choices_;
  std::size_t unfinished_ = 0;  // choices
  bool streaming_ = false;      // the head of an event stream has gone out
  ChoicePiece piece_;           // storage of streamed pieces
  std::string out_;             // events to be sent at the end of the batch
  AccessFigures figures_;
};

}  // namespace skein::server
