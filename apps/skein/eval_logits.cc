// SPDX-License-Identifier: Apache-2.0
//
// skein eval logits: the logits of every position of a list of ids, through the same steps that serve requests.
#include <fmt/format.h>

#include <cstring>

#include "base/json_writer.h"
#include "base/output_file.h"
#include "commands.h"
#include "interrupt.h"
#include "jsonl.h"
#include "load.h"
#include "progress.h"
#include "prompt_jobs.h"

namespace skein::app {
namespace {

constexpr std::uint64_t kTokensFileBytesMax = 256u << 20;
// Positions whose logits are computed in one step; more would only take memory.
constexpr int kStepOutputs = 128;

}  // namespace

void EvalLogitsOptions::Describe(FieldList& fields) {
  fields.AddPositional("MODEL", &model, true, "a GGUF file, a Hugging Face folder, a name, or default");
  fields.Group("Logits");
  fields.Add("tokens", "F.json", &tokens, "a list of ids: [1,2,3]; needed").FlagOnly();
  fields.Add("out", "F.f32", &out, "little-endian float32 [tokens, vocabulary]; needed").FlagOnly();
  machine.Describe(fields);
  output.Describe(fields);
}

Status RunEvalLogits(const EvalLogitsOptions& options, Context& context) {
  if (options.tokens.empty() || options.out.empty()) {
    return InvalidArgument("skein eval logits needs --tokens F.json and --out F.f32; see skein eval logits --help",
                           options.tokens.empty() ? "--tokens" : "--out");
  }
  SKEIN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(options.tokens, "--tokens", kTokensFileBytesMax));
  SKEIN_ASSIGN_OR_RETURN(const boost::json::value value, ParseJson(text, options.tokens));
  SKEIN_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, IdList(value, options.tokens));
  if (ids.empty()) return InvalidArgument(fmt::format("{} is expected to hold ids, found none", options.tokens), "--tokens");

  SKEIN_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(options.out));
  SKEIN_ASSIGN_OR_RETURN(api::Machine machine, api::ResolveMachine(options.machine.Resolved()));
  machine.kv_tokens = ids.size();
  machine.step_outputs = kStepOutputs;
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<api::LoadedModel> loaded, LoadForMeasuring(options.model, machine, context));
  Cancellation cancellation;
  const InterruptGuard guard(cancellation, InterruptGuard::Mode::kOnce);
  std::size_t positions = 0;
  {
    ProgressBar bar(context, "computing");
    const auto vocabulary = static_cast<std::size_t>(loaded->info().vocabulary);
    PromptJobs jobs;
    jobs.count = 1;
    jobs.prompt = [&](std::size_t) { return ids; };
    jobs.output = engine::PromptOutput::kLogits;
    jobs.events_waiting = 2;
    jobs.cancellation = &cancellation;
    jobs.on_event = [&](std::size_t, const engine::PromptEvent& event) -> Status {
      if (static_cast<std::size_t>(event.first_position) != positions) {
        return InternalError(fmt::format("logits of position {} were expected, found those of {}", positions,
                                         event.first_position));
      }
      positions += event.logits.size() / vocabulary;
      bar.Show(positions, ids.size());
      return file.Write(std::as_bytes(std::span(event.logits)));
    };
    SKEIN_RETURN_IF_ERROR(RunPromptJobs(*loaded, jobs));
  }
  if (positions != ids.size()) {
    return InternalError(fmt::format("logits of {} positions were expected, found {}", ids.size(), positions));
  }
  SKEIN_RETURN_IF_ERROR(file.Commit());
  if (!context.json()) return OkStatus();
  JsonWriter json;
  json.BeginObject().Member("tokens", std::uint64_t{ids.size()}).Member("vocabulary", loaded->info().vocabulary);
  json.Member("path", options.out).Member("kernels", loaded->info().kernels);
  json.Member("arithmetic", loaded->info().arithmetic).EndObject();
  return context.out().Write(json.Take() + "\n");
}

}  // namespace skein::app
