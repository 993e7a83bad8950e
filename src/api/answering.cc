// SPDX-License-Identifier: Apache-2.0
#include "api/answering.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "engine/token_sink.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"

namespace skein::api {
namespace {

// How soon a cancellation is seen while no token comes.
constexpr std::chrono::milliseconds kPatience{20};
// Tokens that may wait for a slow callback before the sequence pauses.
constexpr std::size_t kEventsWaiting = 256;
constexpr double kMsPerNs = 1e-6;

using SteadyTime = std::chrono::steady_clock::time_point;

engine::RequestSpec SpecOf(const Question& question) {
  const GenerateOptions& options = question.options;
  engine::RequestSpec spec;
  spec.request = question.request;
  spec.tokens.assign(question.prompt.begin(), question.prompt.end());
  spec.prompt_tokens = static_cast<std::int32_t>(question.prompt.size());
  spec.max_tokens = options.max_tokens;
  spec.sampling.temperature = options.sampling.temperature;
  spec.sampling.top_k = options.sampling.top_k;
  spec.sampling.top_p = options.sampling.top_p;
  spec.sampling.min_p = options.sampling.min_p;
  spec.sampling.repetition_penalty = options.sampling.repeat_penalty;
  spec.sampling.seed = options.sampling.seed;
  spec.stop_tokens.assign(question.stop_tokens.begin(), question.stop_tokens.end());
  spec.ignore_stop_tokens = options.ignore_stop_tokens;
  spec.logprobs = options.logprobs;
  spec.top_logprobs = options.top_logprobs;
  return spec;
}

// One answer in the making.
class Writer {
 public:
  Writer(const text::Tokenizer& tokenizer, const Question& question)
      : question_(question), detokenizer_(tokenizer), stops_(question.options.stop) {
    answer_.prompt_tokens.assign(question.prompt.begin(), question.prompt.end());
  }

  // False: no more tokens are wanted.
  bool OnToken(const engine::TokenEvent& event) {
    const scheduler::ScoredToken& scored = event.token;
    last_ = std::chrono::steady_clock::now();
    if (answer_.tokens.empty()) first_ = last_;
    GeneratedToken& token = answer_.tokens.emplace_back();
    token.token = scored.token;
    token.logprob = scored.logprob;
    token.steps_ms = static_cast<double>(event.steps_ns) * kMsPerNs;
    token.communication_ms = static_cast<double>(event.communication_ns) * kMsPerNs;
    for (const scheduler::TokenLogprob& top : scored.top) token.top.push_back({top.token, top.logprob});
    const bool ends = !question_.options.ignore_stop_tokens &&
                      std::find(question_.stop_tokens.begin(), question_.stop_tokens.end(), scored.token) !=
                          question_.stop_tokens.end();
    text::StopMatcher::Answer matched = stops_.Push(ends ? std::string() : detokenizer_.Push(scored.token));
    const bool more = Emit(std::move(matched.emit), &token);
    stopped_by_text_ = matched.stopped;
    return more && !matched.stopped;
  }

  Answer Finish(FinishReason reason, SteadyTime begin) {
    answer_.finish_reason = reason;
    if (!stopped_by_text_) {
      text::StopMatcher::Answer matched = stops_.Push(detokenizer_.Finish());
      stopped_by_text_ = matched.stopped;
      static_cast<void>(Emit(matched.stopped ? matched.emit : matched.emit + stops_.Finish(), nullptr));
    }
    if (stopped_by_text_) answer_.finish_reason = FinishReason::kStop;
    const SteadyTime end = answer_.tokens.empty() ? std::chrono::steady_clock::now() : last_;
    const auto milliseconds = [](auto duration) { return std::chrono::duration<double, std::milli>(duration).count(); };
    Timing& timing = answer_.timing;
    timing.total_ms = milliseconds(end - begin);
    if (!answer_.tokens.empty()) {
      timing.first_token_ms = milliseconds(first_ - begin);
      const double prefill_ms = std::max(timing.first_token_ms, 1e-3);
      timing.prefill_tokens_per_s = 1000.0 * static_cast<double>(answer_.prompt_tokens.size()) / prefill_ms;
    }
    if (answer_.tokens.size() > 1) {
      const double decode_ms = std::max(milliseconds(last_ - first_), 1e-3);
      timing.decode_tokens_per_s = 1000.0 * static_cast<double>(answer_.tokens.size() - 1) / decode_ms;
    }
    return std::move(answer_);
  }

 private:
  // Adds to the answer and tells who asked. False once that one wants no more.
  bool Emit(std::string text, const GeneratedToken* token) {
    answer_.text += text;
    if (!question_.callback || !listening_ || (text.empty() && token == nullptr)) return true;
    listening_ = question_.callback({text, token}) == Next::kContinue;
    return listening_;
  }

  const Question& question_;
  text::Detokenizer detokenizer_;
  text::StopMatcher stops_;
  Answer answer_;
  bool stopped_by_text_ = false;
  bool listening_ = true;
  SteadyTime first_{}, last_{};
};

FinishReason ReasonOf(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop: return FinishReason::kStop;
    case engine::FinishReason::kLength: return FinishReason::kLength;
    default: return FinishReason::kCancelled;
  }
}

}  // namespace

Result<Answer> AnswerQuestion(engine::EngineClient& client, const text::Tokenizer& tokenizer, const Question& question) {
  const auto sink = std::make_shared<engine::BoundedSink>(kEventsWaiting);
  sink->SetOnRoom([&client] { client.Wake(); });
  Writer writer(tokenizer, question);
  const SteadyTime begin = std::chrono::steady_clock::now();
  SKEIN_RETURN_IF_ERROR(client.Submit(SpecOf(question), sink));
  bool wanted = true;
  const auto end_request = [&] {
    if (wanted) client.Cancel(question.request);
    wanted = false;
  };
  while (true) {
    const std::optional<engine::SinkEvent> event = sink->WaitForEvent(kPatience);
    if (question.cancellation != nullptr && question.cancellation->cancelled()) end_request();
    if (!event) continue;
    if (const auto* token = std::get_if<engine::TokenEvent>(&*event)) {
      if (wanted && !writer.OnToken(*token)) end_request();
    } else if (const auto* finish = std::get_if<engine::FinishedEvent>(&*event)) {
      if (finish->reason == engine::FinishReason::kError) {
        return InternalError(finish->error.empty() ? "a step of the engine failed" : finish->error);
      }
      return writer.Finish(wanted ? ReasonOf(finish->reason) : FinishReason::kCancelled, begin);
    }
  }
}

}  // namespace skein::api
