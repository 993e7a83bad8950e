// SPDX-License-Identifier: Apache-2.0
#include "server/openai/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>
#include <variant>

#include "base/check.h"
#include "server/openai/answering.h"
#include "server/openai/pool_work.h"

namespace skein::server {
namespace {

constexpr double kNsPerSecond = 1e9;
constexpr double kMsPerSecond = 1e3;
constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::string_view kGone = "abort";  // as vLLM calls it

// The prompt's tokens with their scores; offsets count characters of the prompt's text.
std::vector<TokenEntry> PromptEntries(const text::Tokenizer& tokenizer, const PromptTokens& prompt,
                                      std::vector<scheduler::ScoredToken> scores) {
  std::vector<TokenEntry> entries;
  text::Detokenizer detokenizer(tokenizer, /*skip_special=*/false);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < prompt.tokens.size(); ++i) {
    TokenEntry& entry = entries.emplace_back();
    entry.text_offset = offset;
    entry.has_logprob = i > 0 && i <= scores.size();
    if (entry.has_logprob) entry.scored = std::move(scores[i - 1]);
    entry.scored.token = prompt.tokens[i];
    // The begin token that the tokenizer adds is no text of the client's.
    const bool added = i == 0 && prompt.tokens[i] == tokenizer.bos() && tokenizer.adds_bos();
    if (!added) offset += CountCharacters(detokenizer.Push(prompt.tokens[i]));
  }
  return entries;
}

}  // namespace

Generation::Generation(Serving& serving, std::shared_ptr<Exchange> exchange)
    : serving_(serving), exchange_(std::move(exchange)), arrived_ns_(serving.clock.NowNs()) {}

void Generation::Begin(Serving& serving, std::shared_ptr<Exchange> exchange, Parse parse, std::size_t inline_bytes) {
  const std::shared_ptr<Generation> self(new Generation(serving, std::move(exchange)));
  serving.generations.emplace(&self->exchange_->request(), self);
  ApiResult<Admission::Place> place = EnterServer(serving);
  if (!place.ok()) return self->Refuse(place.error());
  self->place_ = std::move(place).value();
  const std::weak_ptr<Generation> weak = self;
  self->exchange_->OnGone([weak] {
    if (const auto alive = weak.lock()) alive->OnGone();
  });
  self->exchange_->OnRoom([weak] {
    if (const auto alive = weak.lock()) alive->OnRoom();
  });
  self->Read(parse, inline_bytes);
}

void Generation::Read(Parse parse, std::size_t inline_bytes) {
  if (exchange_->request().body.size() <= inline_bytes) {
    OnRead(parse(exchange_->request(), serving_.card));
    return;
  }
  // The exchange stays alive and unchanged while the pool reads its request.
  const Status begun = RunOnPool<ApiResult<GenerationRequest>>(
      serving_, exchange_, abandoned_.get_token(),
      [parse, &card = serving_.card](const HttpRequest& request) { return parse(request, card); },
      [weak = weak_from_this()](ApiResult<GenerationRequest> request) {
        const auto alive = weak.lock();
        if (alive && !alive->ended()) alive->OnRead(std::move(request));
      });
  if (!begun.ok()) Refuse(NotTakenError(begun, serving_));
}

void Generation::OnRead(ApiResult<GenerationRequest> request) {
  if (!request.ok()) {
    Refuse(request.error());
    return;
  }
  request_ = std::move(request).value();
  exchange_->ReleaseBody();
  serving_.metrics.OnParameters(request_->n);
  const std::weak_ptr<Generation> weak = weak_from_this();
  if (request_->deadline_ms > 0) {
    const std::int64_t left_ns = arrived_ns_ + request_->deadline_ms * kNsPerMs - serving_.clock.NowNs();
    deadline_ = serving_.io.after(std::chrono::nanoseconds(std::max<std::int64_t>(left_ns, 0)), [weak] {
      if (const auto alive = weak.lock()) alive->OnDeadline();
    });
  }
  serving_.admission.Await(*place_, [weak] {
    if (const auto alive = weak.lock()) alive->Start();
  });
}

void Generation::Start() {
  const bool chat = request_->kind == GenerationRequest::Kind::kChat;
  writer_.emplace(*serving_.card.tokenizer, *request_,
                  AnswerHead{.id = AnswerId(chat ? "chatcmpl-" : "cmpl-"),
                             .created_s = std::chrono::duration_cast<std::chrono::seconds>(
                                              std::chrono::system_clock::now().time_since_epoch())
                                              .count(),
                             .model = request_->model,
                             .fingerprint = serving_.card.fingerprint});
  submitted_ns_ = serving_.clock.NowNs();
  if (serving_.log_prompts) {
    for (const PromptTokens& prompt : request_->prompts) figures_.prompts += prompt.text;
  }
  if (const Status submitted = SubmitAll(); !submitted.ok()) Refuse(NotTakenError(submitted, serving_));
}

Status Generation::SubmitAll() {
  const auto n = static_cast<std::size_t>(request_->n);
  choices_.resize(request_->prompts.size() * n);
  std::vector<TokenId> stop_tokens = request_->stop_token_ids;
  if (!request_->ignore_eos) {
    stop_tokens.insert(stop_tokens.end(), serving_.card.stop_tokens.begin(), serving_.card.stop_tokens.end());
  }
  for (std::size_t index = 0; index < choices_.size(); ++index) {
    Choice& choice = choices_[index];
    choice.prompt = index / n;
    choice.request = serving_.NextRequest();
    const PromptTokens& prompt = request_->prompts[choice.prompt];
    choice.text = std::make_unique<ChoiceText>(
        *serving_.card.tokenizer,
        ChoiceTextOptions{.stop = request_->stop,
                          .include_stop = request_->include_stop_in_output,
                          .stop_tokens = stop_tokens,
                          .min_tokens = request_->min_tokens,
                          .skip_special = request_->skip_special_tokens,
                          .logprobs = request_->logprobs,
                          .token_ids = request_->return_token_ids,
                          .reasoning = serving_.reasoning && request_->kind == GenerationRequest::Kind::kChat,
                          .opens_reasoning = request_->generation_prompt_opens_reasoning,
                          .text_offset = request_->echo ? CountCharacters(prompt.text) : 0});
    engine::RequestSpec spec = SpecOf(choice, static_cast<std::int32_t>(index % n));
    spec.stop_tokens = stop_tokens;
    const auto sink = std::make_shared<ChoiceSink>(serving_.mailbox, *this, index);
    SKEIN_RETURN_IF_ERROR(serving_.engine.Submit(std::move(spec), sink));
    choice.sink = sink;
    ++unfinished_;
  }
  return OkStatus();
}

engine::RequestSpec Generation::SpecOf(const Choice& choice, std::int32_t index) const {
  const PromptTokens& prompt = request_->prompts[choice.prompt];
  const bool scores_prompt = request_->prompt_logprobs.has_value() || (request_->echo && request_->logprobs);
  engine::RequestSpec spec;
  spec.request = choice.request;
  spec.tokens = prompt.tokens;
  spec.prompt_tokens = static_cast<std::int32_t>(prompt.tokens.size());
  spec.max_tokens = prompt.max_tokens;
  spec.min_tokens = request_->min_tokens;
  spec.choice = index;
  spec.sampling = request_->sampling;
  spec.logprobs = request_->logprobs;
  spec.top_logprobs = std::max(request_->logprobs ? request_->top_logprobs : 0, request_->prompt_logprobs.value_or(0));
  spec.prompt_output = scores_prompt ? engine::PromptOutput::kScores : engine::PromptOutput::kNone;
  spec.priority = request_->priority;
  if (request_->deadline_ms > 0) spec.deadline_ns = arrived_ns_ + request_->deadline_ms * kNsPerMs;
  spec.tenant = exchange_->request().tenant;
  spec.cache_salt = request_->cache_salt;
  return spec;
}

void Generation::OnEvent(std::size_t index, engine::SinkEvent event) {
  const std::shared_ptr<Generation> self = shared_from_this();  // it may end in here
  Choice& choice = choices_[index];
  if (auto* prompt = std::get_if<engine::PromptEvent>(&event)) {
    std::move(prompt->scores.begin(), prompt->scores.end(), std::back_inserter(choice.prompt_scores));
  } else if (auto* token = std::get_if<engine::TokenEvent>(&event)) {
    OnToken(choice, index, std::move(token->token));
  } else {
    OnFinished(choice, index, std::get<engine::FinishedEvent>(event));
  }
}

void Generation::OnToken(Choice& choice, std::size_t index, scheduler::ScoredToken token) {
  if (choice.text->ended()) return;  // a stop text was complete before the engine heard of it
  const std::int64_t now_ns = serving_.clock.NowNs();
  if (choice.first_token_ns == 0) {
    choice.first_token_ns = now_ns;
    serving_.metrics.OnFirstToken(SecondsSinceArrival(now_ns));
    if (figures_.first_token_ms == 0) figures_.first_token_ms = kMsPerSecond * SecondsSinceArrival(now_ns);
  } else {
    serving_.metrics.OnNextToken(static_cast<double>(now_ns - choice.last_token_ns) / kNsPerSecond);
  }
  choice.last_token_ns = now_ns;
  ChoicePiece& piece = request_->stream ? piece_ : choice.whole.piece;
  OpenChoice(choice, index, piece);
  if (!choice.text->Push(std::move(token), piece)) serving_.engine.Cancel(choice.request);
  EmitPiece(index, piece);
}

// What comes before the first token: the role, or the prompt where it is echoed.
void Generation::OpenChoice(Choice& choice, std::size_t index, ChoicePiece& piece) {
  if (std::exchange(choice.opened, true)) return;
  BeginStream();
  if (request_->stream && request_->kind == GenerationRequest::Kind::kChat) writer_->AppendRole(index, out_);
  const PromptTokens& prompt = request_->prompts[choice.prompt];
  if (request_->echo) piece.content = prompt.text;
  if (choice.prompt_scores.empty() && !(request_->echo && request_->logprobs) && !request_->prompt_logprobs) return;
  std::vector<TokenEntry> entries = PromptEntries(*serving_.card.tokenizer, prompt, std::move(choice.prompt_scores));
  if (request_->prompt_logprobs && !request_->stream) choice.whole.prompt_entries = entries;
  if (request_->echo && request_->logprobs) piece.entries = std::move(entries);
}

void Generation::EmitPiece(std::size_t index, const ChoicePiece& piece) {
  if (!request_->stream) return;
  if (!piece.empty()) writer_->AppendChunk(index, piece, request_->continuous_usage ? UsageSoFar() : Usage(), out_);
  piece_.Clear();
}

void Generation::BeginStream() {
  if (!request_->stream || std::exchange(streaming_, true)) return;
  std::vector<HttpHeader> headers;
  if (const std::string& trace = exchange_->request().traceparent; !trace.empty()) headers.push_back({"traceparent", trace});
  exchange_->BeginEvents(std::move(headers));
}

void Generation::OnFinished(Choice& choice, std::size_t index, const engine::FinishedEvent& event) {
  const bool cut_by_us = choice.text->ended();
  if (!cut_by_us && event.reason == engine::FinishReason::kError) {
    if (event.refused) {
      return Refuse({.status = 503,
                     .message = fmt::format("an answer within {} ms is not possible while so many others wait; allow more, "
                                            "or try again later",
                                            request_->deadline_ms),
                     .param = {}, .code = "deadline_unreachable"});
    }
    const bool late = request_->deadline_ms > 0 &&
                      event.total_ns + submitted_ns_ - arrived_ns_ >= request_->deadline_ms * kNsPerMs;
    if (late) return OnDeadline();
  }
  if (!cut_by_us) {
    if (const std::optional<ApiError> failure = FailureOf(event)) return Refuse(*failure);
  }
  choice.finished = true;
  choice.cached_tokens = event.cached_tokens;
  --unfinished_;
  if (!cut_by_us) {
    ChoicePiece& piece = request_->stream ? piece_ : choice.whole.piece;
    OpenChoice(choice, index, piece);
    choice.text->Finish(event.reason, piece);
    EmitPiece(index, piece);
  }
  const double before_engine_s = SecondsSinceArrival(submitted_ns_);
  const double queue_s = before_engine_s + static_cast<double>(event.queued_ns) / kNsPerSecond;
  const double first_s = before_engine_s + static_cast<double>(event.first_token_ns) / kNsPerSecond;
  const double total_s = before_engine_s + static_cast<double>(event.total_ns) / kNsPerSecond;
  figures_.queue_ms = std::max(figures_.queue_ms, queue_s * kMsPerSecond);
  serving_.metrics.OnFinished(
      {.finished_reason = cut_by_us || event.reason == engine::FinishReason::kStop ? "stop" : "length",
       .queue_s = queue_s,
       .prefill_s = std::max(first_s - queue_s, 0.0),
       .decode_s = std::max(total_s - first_s, 0.0),
       .total_s = total_s,
       .prompt_tokens = event.prompt_tokens,
       .generated_tokens = choice.text->token_count(),
       .max_tokens = request_->prompts[choice.prompt].max_tokens});
}

void Generation::OnBatchEnd() {
  if (ended()) return;
  const std::shared_ptr<Generation> self = shared_from_this();
  if (unfinished_ == 0) return Complete();
  if (out_.empty()) return;
  exchange_->Send(out_);
  out_.clear();
  if (exchange_->unsent_bytes() > kUnsentMax) {
    for (const Choice& choice : choices_) choice.sink->Hold(true);
  }
}

void Generation::Complete() {
  const Usage usage = UsageSoFar();
  const std::shared_ptr<Exchange> exchange = exchange_;
  if (request_->stream) {
    if (request_->include_usage) writer_->AppendUsage(usage, out_);
    AnswerWriter::AppendDone(out_);
    End("");
    exchange->Send(out_);
    exchange->EndEvents();
    return;
  }
  std::vector<WholeChoice> whole;
  whole.reserve(choices_.size());
  for (Choice& choice : choices_) whole.push_back(std::move(choice.whole));
  HttpResponse response;
  response.body = writer_->Whole(whole, usage);
  End("");
  Answer(*exchange, std::move(response));
}

Usage Generation::UsageSoFar() const {
  Usage usage;
  for (std::size_t prompt = 0; prompt < request_->prompts.size(); ++prompt) {
    usage.prompt_tokens += static_cast<std::int64_t>(request_->prompts[prompt].tokens.size());
  }
  // A prompt is counted once, however many choices it has; of those the first to be computed found the fewest tokens.
  std::vector<std::int64_t> cached(request_->prompts.size(), -1);
  for (const Choice& choice : choices_) {
    usage.completion_tokens += choice.text->token_count();
    usage.reasoning_tokens += choice.text->reasoning_token_count();
    std::int64_t& least = cached[choice.prompt];
    if (choice.finished && (least < 0 || choice.cached_tokens < least)) least = choice.cached_tokens;
  }
  for (const std::int64_t count : cached) usage.cached_tokens += std::max<std::int64_t>(count, 0);
  return usage;
}

double Generation::SecondsSinceArrival(std::int64_t at_ns) const {
  return static_cast<double>(at_ns - arrived_ns_) / kNsPerSecond;
}

void Generation::OnGone() {
  if (ended()) return;
  const std::shared_ptr<Generation> self = shared_from_this();
  serving_.metrics.OnClientGone();
  End(kGone);
}

void Generation::OnRoom() {
  if (ended()) return;
  for (const Choice& choice : choices_) choice.sink->Hold(false);
  serving_.engine.Wake();
}

void Generation::OnDeadline() {
  if (ended()) return;
  Refuse({.status = 504,
          .message = fmt::format("the answer was not done within the {} ms that the request allows; allow more, or ask "
                                 "for fewer tokens",
                                 request_->deadline_ms),
          .param = {}, .code = "deadline_exceeded"});
}

// Ends with an error: as a status while that is possible, else as an event without [DONE].
void Generation::Refuse(const ApiError& error) {
  const std::shared_ptr<Generation> self = shared_from_this();
  const std::shared_ptr<Exchange> exchange = exchange_;
  HttpResponse response = ResponseOf(error, serving_);
  const bool streaming = streaming_;
  std::string out = std::move(out_);
  End("error");
  if (streaming) {
    exchange->Send(out + "data: " + response.body + "\n\n");
    exchange->EndEvents();
  } else {
    Answer(*exchange, std::move(response));
  }
}

AccessFigures Generation::FiguresNow() const {
  AccessFigures figures = figures_;
  const bool submitted = !choices_.empty() && choices_.back().text != nullptr;
  if (!submitted) return figures;
  const Usage usage = UsageSoFar();
  figures.prompt_tokens = usage.prompt_tokens;
  figures.completion_tokens = usage.completion_tokens;
  figures.cached_tokens = usage.cached_tokens;
  return figures;
}

AccessFigures Generation::FiguresWhenGone() const {
  AccessFigures figures = FiguresNow();
  figures.finish_reason = kGone;
  return figures;
}

void Generation::End(std::string_view unfinished_reason) {
  const std::shared_ptr<Generation> self = shared_from_this();
  abandoned_.request_stop();
  for (const Choice& choice : choices_) {
    if (choice.sink == nullptr) continue;
    choice.sink->Detach();
    if (choice.finished) continue;
    serving_.engine.Cancel(choice.request);
    serving_.metrics.OnFinished(
        {.finished_reason = unfinished_reason,
         .total_s = SecondsSinceArrival(serving_.clock.NowNs()),
         .prompt_tokens = static_cast<std::int64_t>(request_->prompts[choice.prompt].tokens.size()),
         .generated_tokens = 0,
         .max_tokens = request_->prompts[choice.prompt].max_tokens});
  }
  if (!choices_.empty()) {
    constexpr double kNewest = 0.1;  // weight of the newest answer in the mean
    serving_.mean_request_s += kNewest * (SecondsSinceArrival(serving_.clock.NowNs()) - serving_.mean_request_s);
  }
  const HttpRequest* key = &exchange_->request();
  // The answer of a client that has gone is in the log already.
  if (unfinished_reason != kGone) {
    AccessFigures& figures = serving_.figures[key] = FiguresNow();
    figures.finish_reason = unfinished_reason.empty() ? "done" : unfinished_reason;
  }
  exchange_ = nullptr;
  deadline_ = nullptr;
  serving_.generations.erase(key);
  place_.reset();
  if (serving_.on_generation_end) serving_.on_generation_end();
}

}  // namespace skein::server
