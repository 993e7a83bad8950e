// SPDX-License-Identifier: Apache-2.0
#include "load.h"

#include <fmt/format.h>

#include "model_cache.h"
#include "progress.h"

namespace skein::app {
namespace {

void NotePackedCache(const ModelInfo& info, const Context& context) {
  if (!info.packed_cache_trouble.empty()) context.log().Write(LogLevel::kWarning, info.packed_cache_trouble);
  if (!info.packed_cache.empty()) context.log().Write(LogLevel::kInfo, fmt::format("packed cache: {}", info.packed_cache));
}

void NoteContext(const ModelInfo& info, int asked, const Context& context) {
  if (asked == 0 && info.context < info.model_context) {
    context.log().Write(LogLevel::kWarning, fmt::format("memory holds a context of {} tokens, the model was made for {}",
                                                        info.context, info.model_context));
  }
  if (asked > info.model_context) {
    context.log().Write(LogLevel::kWarning,
                        fmt::format("a context of {} tokens is more than the {} that the model was made for; answers behind "
                                    "those may make no sense",
                                    asked, info.model_context));
  }
  context.log().Write(LogLevel::kInfo,
                      fmt::format("{} loaded in {:.0f} ms: {} threads, kernels {}, arithmetic {}, KV {}, context {}",
                                  info.name, info.load_ms, info.threads, info.kernels, info.arithmetic, info.kv_dtype,
                                  info.context));
  NoteWire(info, context);
}

}  // namespace

void NoteWire(const ModelInfo& info, const Context& context) {
  if (info.outer_wire.empty()) return;
  context.log().Write(LogLevel::kInfo, fmt::format("ranks of different hosts send {}, those of one {}", info.outer_wire, info.wire));
}

Result<Engine> LoadEngine(const std::string& model, const EngineOptions& options, Context& context) {
  SKEIN_ASSIGN_OR_RETURN(const std::string path, ResolveModel(model));
  ProgressBar bar(context, "loading");
  Result<Engine> engine = Engine::Load(path, options, [&](std::uint64_t done, std::uint64_t total) { bar.Show(done, total); });
  if (engine.ok()) {
    NoteContext(engine->info(), options.context, context);
    NotePackedCache(engine->info(), context);
  }
  return engine;
}

Result<std::unique_ptr<api::LoadedModel>> LoadForMeasuring(const std::string& model, const api::Machine& machine,
                                                           Context& context) {
  SKEIN_ASSIGN_OR_RETURN(const std::string path, ResolveModel(model));
  ProgressBar bar(context, "loading");
  auto loaded = api::LoadedModel::Load(path, machine, [&](std::uint64_t done, std::uint64_t total) { bar.Show(done, total); });
  if (loaded.ok()) NotePackedCache((*loaded)->info(), context);
  return loaded;
}

void TellSummary(const ModelInfo& info, const Answer& answer, const Context& context) {
  context.Tell(fmt::format(
      "skein: first token after {:.0f} ms, prefill {:.0f} tokens/s ({} tokens), decode {:.1f} tokens/s ({} tokens); "
      "kernels {}, arithmetic {}, {} thread{}",
      answer.timing.first_token_ms, answer.timing.prefill_tokens_per_s, answer.prompt_tokens.size(),
      answer.timing.decode_tokens_per_s, answer.tokens.size(), info.kernels, info.arithmetic, info.threads,
      info.threads == 1 ? "" : "s"));
}

}  // namespace skein::app
