// SPDX-License-Identifier: Apache-2.0
//
// The public Engine: a thin layer over LoadedModel.
#include "skein/engine.h"

#include <utility>

#include "api/answering.h"
#include "api/conversation.h"
#include "api/loaded_model.h"
#include "api/machine.h"

namespace skein {

std::string_view NameOf(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
  }
  return "stop";
}

class Engine::Impl {
 public:
  std::unique_ptr<api::LoadedModel> loaded;
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

Result<Engine> Engine::Load(const std::string& path, const EngineOptions& options, const LoadProgress& progress) {
  SKEIN_ASSIGN_OR_RETURN(const api::Machine machine, api::ResolveMachine(options));
  auto impl = std::make_unique<Impl>();
  SKEIN_ASSIGN_OR_RETURN(impl->loaded, api::LoadedModel::Load(path, machine, progress));
  return Engine(std::move(impl));
}

const ModelInfo& Engine::info() const { return impl_->loaded->info(); }

Result<Answer> Engine::Generate(std::span<const std::int32_t> prompt, const GenerateOptions& options,
                                const PieceCallback& callback, const Cancellation* cancellation) {
  api::LoadedModel& loaded = *impl_->loaded;
  return api::AnswerQuestion(loaded.client(), loaded.tokenizer(),
                             {.request = loaded.NextRequest(),
                              .prompt = prompt,
                              .stop_tokens = loaded.file().config().eos,
                              .options = options,
                              .callback = callback,
                              .cancellation = cancellation});
}

Result<Answer> Engine::Complete(std::string_view text, const GenerateOptions& options, const PieceCallback& callback,
                                const Cancellation* cancellation) {
  SKEIN_ASSIGN_OR_RETURN(const std::vector<std::int32_t> prompt, Tokenize(text));
  return Generate(prompt, options, callback, cancellation);
}

Result<Answer> Engine::Chat(const std::vector<Message>& messages, const GenerateOptions& options,
                            const PieceCallback& callback, const Cancellation* cancellation) {
  SKEIN_ASSIGN_OR_RETURN(const std::vector<std::int32_t> prompt, ChatTokens(messages));
  return Generate(prompt, options, callback, cancellation);
}

Result<std::vector<std::int32_t>> Engine::Tokenize(std::string_view text, bool add_special, bool parse_special) const {
  constexpr std::size_t kTextBytesMax = 1u << 31;
  if (text.size() > kTextBytesMax) return LimitExceeded("a text has at most 2 GiB");
  return impl_->loaded->tokenizer().Encode(text, {.add_special = add_special, .parse_special = parse_special});
}

std::string Engine::Detokenize(std::span<const std::int32_t> tokens, bool skip_special) const {
  return impl_->loaded->tokenizer().Decode(tokens, skip_special);
}

Result<std::vector<std::int32_t>> Engine::ChatTokens(const std::vector<Message>& messages) const {
  return api::ConversationTokens(*impl_->loaded, messages);
}

}  // namespace skein
