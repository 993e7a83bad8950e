// SPDX-License-Identifier: Apache-2.0
//
// skein run: one prompt, one answer, through the library's public interface.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>

#include "base/json_writer.h"
#include "base/output_file.h"
#include "commands.h"
#include "interrupt.h"
#include "jsonl.h"
#include "load.h"
#include "model_cache.h"
#include "skein/skein.h"
#include "trace.h"

namespace skein::app {
namespace {

constexpr std::uint64_t kPromptBytesMax = 256u << 20;

// What was asked: ids, or a text.
struct Prompt {
  std::optional<std::vector<std::int32_t>> tokens;
  std::string text;
};

Result<Prompt> ReadPrompt(const RunOptions& options) {
  const int given = static_cast<int>(!options.prompt.empty()) + static_cast<int>(!options.prompt_file.empty()) +
                    static_cast<int>(!options.prompt_tokens.empty());
  if (given != 1) {
    return InvalidArgument(
        fmt::format("skein run needs one prompt that is not empty (PROMPT, --prompt-file or --prompt-tokens), found {}; "
                    "see skein run --help",
                    given == 0 ? "none" : "several"),
        "PROMPT");
  }
  Prompt prompt;
  if (!options.prompt_tokens.empty()) {
    SKEIN_ASSIGN_OR_RETURN(prompt.tokens, IdList(std::string_view(options.prompt_tokens), "--prompt-tokens"));
    return prompt;
  }
  if (!options.prompt_file.empty()) {
    SKEIN_ASSIGN_OR_RETURN(prompt.text, ReadTextFile(options.prompt_file, "--prompt-file", kPromptBytesMax));
  } else if (options.prompt == "-") {
    SKEIN_ASSIGN_OR_RETURN(prompt.text, ReadStandardInput(kPromptBytesMax));
  } else {
    prompt.text = options.prompt;
  }
  if (prompt.text.empty()) return InvalidArgument("the prompt is expected to hold some text, found none", "PROMPT");
  return prompt;
}

Result<std::vector<std::int32_t>> PromptTokens(const Engine& engine, const Prompt& prompt, const RunOptions& options) {
  if (prompt.tokens) return *prompt.tokens;
  if (options.raw || !engine.info().has_chat_template) {
    if (!options.system.empty()) {
      return InvalidArgument("--system needs a chat turn, found --raw or a model without a chat template", "--system");
    }
    return engine.Tokenize(prompt.text);
  }
  std::vector<Message> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  messages.push_back({"user", prompt.text});
  return engine.ChatTokens(messages);
}

std::string AnswerJson(const Engine& engine, const Answer& answer, const RunOptions& options) {
  const ModelInfo& info = engine.info();
  JsonWriter json;
  json.BeginObject().Key("model").BeginObject();
  json.Member("name", info.name).Member("architecture", info.architecture).Member("parameters", info.parameters);
  json.Member("weight_format", info.weight_format).EndObject().Key("prompt_tokens").BeginArray();
  for (const std::int32_t token : answer.prompt_tokens) json.Value(token);
  json.EndArray().Key("tokens").BeginArray();
  for (const GeneratedToken& token : answer.tokens) json.Value(token.token);
  json.EndArray().Member("text", answer.text).Member("finish_reason", NameOf(answer.finish_reason));
  json.Key("logprobs").BeginArray();
  if (options.logprobs > 0) {
    for (const GeneratedToken& token : answer.tokens) {
      json.BeginObject().Member("token", token.token).Member("logprob", token.logprob).Key("top").BeginArray();
      for (const TokenScore& top : token.top) {
        json.BeginObject().Member("token", top.token).Member("logprob", top.logprob).EndObject();
      }
      json.EndArray().EndObject();
    }
  }
  json.EndArray().Key("timing").BeginObject().Member("load_ms", info.load_ms);
  json.Member("ttft_ms", answer.timing.first_token_ms);
  json.Member("prefill_tokens_per_s", answer.timing.prefill_tokens_per_s);
  json.Member("decode_tokens_per_s", answer.timing.decode_tokens_per_s);
  json.Member("total_ms", answer.timing.total_ms).EndObject();
  json.Member("kernels", info.kernels).Member("arithmetic", info.arithmetic).Member("kv_dtype", info.kv_dtype);
  json.Member("seed", options.answer.generate.sampling.seed).Member("threads", info.threads).Key("mesh").BeginObject();
  json.Member("data", 1).Member("pipe", info.pipe).Member("seq", 1).Member("tensor", info.tensor).EndObject();
  if (!info.transport.empty()) json.Member("transport", info.transport).Member("wire", info.wire);
  if (!info.outer_wire.empty()) json.Member("outer_wire", info.outer_wire);
  json.EndObject();
  return json.Take() + "\n";
}

// Spans of a Chrome trace (chrome://tracing): the prompt's steps together, then each token's; in a second row what the steps of each did. Ranks talk many
// times in a step: that is one span, behind the one of computing.
class Trace {
 public:
  Trace() : begin_(Now()), last_(begin_) {}

  void Load(double load_ms) { Span("load", begin_ - 1000 * load_ms, 1000 * load_ms); }
  void Token(const GeneratedToken& token) {
    const double now = Now();
    Span(count_++ == 0 ? "prompt" : "token", last_, now - last_);
    const double steps_us = std::clamp(1000 * token.steps_ms, 0.0, now - last_);
    const double communication_us = std::clamp(1000 * token.communication_ms, 0.0, steps_us);
    if (steps_us > 0) Span("compute", now - steps_us, steps_us - communication_us, kStepsRow);
    if (communication_us > 0) {
      Span("communication", now - communication_us, communication_us, kStepsRow, fmt::format(",\"args\":{{\"share\":{:.4f}}}", communication_us / steps_us));
    }
    last_ = now;
  }
  Status WriteTo(OutputFile& file, const model::PhaseClock::Profile& phases) {
    const std::string more = PhaseEvents(phases, kPhasesRow);
    SKEIN_RETURN_IF_ERROR(file.Write("{\"traceEvents\":[" + events_ + (more.empty() ? "" : ",\n") + more + "]}\n"));
    return file.Commit();
  }

 private:
  static double Now() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::micro>(now).count();
  }
  static constexpr int kTokensRow = 1, kStepsRow = 2, kPhasesRow = 3;
  // `more`: JSON members, each behind a comma.
  void Span(const char* name, double begin_us, double length_us, int row = kTokensRow, std::string_view more = "") {
    events_ += fmt::format("{}{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.1f},\"dur\":{:.1f}{}}}", events_.empty() ? "" : ",\n", name, row,
                           begin_us, length_us, more);
  }

  double begin_, last_;
  int count_ = 0;
  std::string events_;
};

}  // namespace

void RunOptions::Describe(FieldList& fields) {
  fields.AddPositional("MODEL", &model, true, "a GGUF file, a Hugging Face folder, a name, or default");
  fields.AddPositional("PROMPT", &prompt, false, "the prompt; - for standard input");
  fields.Group("Prompt");
  fields.Add("prompt-file", "FILE", &prompt_file, "the prompt from a file").FlagOnly();
  fields.Add("prompt-tokens", "IDS", &prompt_tokens, "the prompt as ids: 1,2,3").FlagOnly();
  fields.Add("system", "TEXT", &system, "what the model is told before the prompt");
  fields.Add("raw", "", &raw, "continues the text instead of answering it as a chat turn");
  answer.Describe(fields);
  fields.Add("logprobs", "N", &logprobs, "with --json: the N likeliest tokens beside each one").Range(0, 1000);
  machine.Describe(fields);
  output.Describe(fields);
  fields.Add("profile", "FILE", &profile, "writes a Chrome trace").FlagOnly();
}

Status RunRun(const RunOptions& options, Context& context) {
  SKEIN_ASSIGN_OR_RETURN(const Prompt prompt, ReadPrompt(options));
  EngineOptions engine_options = options.machine.Resolved();
  std::optional<OutputFile> profile;  // opened first: a path that cannot be written is said before any work
  if (!options.profile.empty()) {
    SKEIN_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(options.profile));
    profile.emplace(std::move(file));
    engine_options.phases = std::make_shared<model::PhaseClock>();
  }
  SKEIN_ASSIGN_OR_RETURN(Engine engine, LoadEngine(options.model, engine_options, context));
  SKEIN_ASSIGN_OR_RETURN(const std::vector<std::int32_t> tokens, PromptTokens(engine, prompt, options));

  GenerateOptions generate = options.answer.generate;
  generate.logprobs = options.logprobs > 0;
  generate.top_logprobs = options.logprobs;
  Trace trace;
  trace.Load(engine.info().load_ms);
  Status written;
  const PieceCallback on_piece = [&](const Piece& piece) {
    if (piece.token != nullptr) trace.Token(*piece.token);
    if (context.json() || piece.text.empty()) return Next::kContinue;
    written = context.out().Write(piece.text);
    if (written.ok()) written = context.out().Flush();
    return written.ok() ? Next::kContinue : Next::kStop;
  };
  Cancellation cancellation;
  const InterruptGuard guard(cancellation, InterruptGuard::Mode::kOnce);
  SKEIN_ASSIGN_OR_RETURN(const Answer answer, engine.Generate(tokens, generate, on_piece, &cancellation));
  SKEIN_RETURN_IF_ERROR(written);
  SKEIN_RETURN_IF_ERROR(context.out().Write(context.json() ? AnswerJson(engine, answer, options) : "\n"));
  SKEIN_RETURN_IF_ERROR(context.out().Flush());
  if (profile) {
    const model::PhaseClock::Profile phases = engine_options.phases->Read();
    SKEIN_RETURN_IF_ERROR(trace.WriteTo(*profile, phases));
    context.Tell(PhaseTable(phases));
  }
  if (cancellation.cancelled()) return Status(Code::kCancelled, "interrupted");
  if (!context.json()) TellSummary(engine.info(), answer, context);
  return OkStatus();
}

}  // namespace skein::app
