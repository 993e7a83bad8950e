// SPDX-License-Identifier: Apache-2.0
//
// skein eval perplexity: windows that do not overlap, a short last one dropped, each preceded by the begin token only
// if the model's file asks for one. Every token of a window but its first is scored given those before it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json_writer.h"
#include "commands.h"
#include "interrupt.h"
#include "load.h"
#include "progress.h"
#include "prompt_jobs.h"

namespace skein::app {
namespace {

constexpr std::uint64_t kTextBytesMax = 1u << 30;
constexpr int kWindowDefault = 512;
constexpr int kStepOutputs = 256;
constexpr std::size_t kInFlight = 3;

}  // namespace

void EvalPerplexityOptions::Describe(FieldList& fields) {
  fields.AddPositional("MODEL", &model, true, "a GGUF file, a Hugging Face folder, a name, or default");
  fields.Group("Perplexity");
  fields.Add("text", "FILE", &text, "the text, or - for standard input; needed; --context is the window [512]").FlagOnly();
  machine.Describe(fields);
  output.Describe(fields);
}

Status RunEvalPerplexity(const EvalPerplexityOptions& options, Context& context) {
  if (options.text.empty()) {
    return InvalidArgument("skein eval perplexity needs --text FILE, found none; see skein eval perplexity --help", "--text");
  }
  SKEIN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(options.text, "--text", kTextBytesMax));
  SKEIN_ASSIGN_OR_RETURN(api::Machine machine, api::ResolveMachine(options.machine.Resolved()));
  const auto window = static_cast<std::size_t>(machine.context > 0 ? machine.context : kWindowDefault);
  if (window < 2) return InvalidArgument("a window has at least 2 tokens, found --context 1", "--context");
  // One place more for a begin token. Each window fills whole frames of the KV cache.
  machine.context = static_cast<int>(window) + 1;
  machine.kv_tokens = kInFlight * (window + 1 + kernels::kFrameTokens);
  machine.step_outputs = std::min(kStepOutputs, machine.step_tokens);
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<api::LoadedModel> loaded, LoadForMeasuring(options.model, machine, context));
  const text::Tokenizer& tokenizer = loaded->tokenizer();
  const std::vector<TokenId> ids = tokenizer.Encode(text, {.add_special = false, .parse_special = false});
  const std::size_t count = ids.size() / window;
  if (count == 0) {
    return InvalidArgument(fmt::format("the text is expected to fill a window of {} tokens, found {} tokens", window,
                                       ids.size()),
                           "--text");
  }
  const std::size_t begin = tokenizer.adds_bos() ? 1 : 0;
  double sum = 0;
  std::size_t scored = 0;
  Cancellation cancellation;
  const InterruptGuard guard(cancellation, InterruptGuard::Mode::kOnce);
  {
    ProgressBar bar(context, "scoring");
    PromptJobs jobs;
    jobs.count = count;
    jobs.in_flight = kInFlight;
    jobs.cancellation = &cancellation;
    jobs.prompt = [&](std::size_t job) {
      std::vector<TokenId> tokens(begin + window, tokenizer.bos());
      std::copy_n(ids.begin() + static_cast<std::ptrdiff_t>(job * window), window,
                  tokens.begin() + static_cast<std::ptrdiff_t>(begin));
      return tokens;
    };
    jobs.on_event = [&](std::size_t job, const engine::PromptEvent& event) {
      for (std::size_t i = 0; i < event.scores.size(); ++i) {
        // The score at a position is the next token's: the window's own first token is not scored.
        const std::size_t position = static_cast<std::size_t>(event.first_position) + i;
        if (position < begin || position + 1 >= begin + window) continue;
        sum -= static_cast<double>(event.scores[i].logprob);
        ++scored;
      }
      bar.Show(job + 1, count);
      return OkStatus();
    };
    SKEIN_RETURN_IF_ERROR(RunPromptJobs(*loaded, jobs));
  }
  if (scored != count * (window - 1)) {
    return InternalError(fmt::format("{} scores were expected, found {}", count * (window - 1), scored));
  }
  const double mean = sum / static_cast<double>(scored);
  if (!context.json()) {
    return context.out().Write(fmt::format("perplexity {:.4f} over {} tokens in {} windows of {} (mean nll {:.5f})\n",
                                           std::exp(mean), scored, count, window, mean));
  }
  JsonWriter json;
  json.BeginObject().Member("tokens", std::uint64_t{scored}).Member("nll", mean).Member("perplexity", std::exp(mean));
  json.Member("windows", std::uint64_t{count}).Member("window", std::uint64_t{window});
  json.Member("kernels", loaded->info().kernels).Member("arithmetic", loaded->info().arithmetic);
  json.Member("kv_dtype", loaded->info().kv_dtype).EndObject();
  return context.out().Write(json.Take() + "\n");
}

}  // namespace skein::app
