// SPDX-License-Identifier: Apache-2.0
//
// Engine: a model in memory that answers. Load one (or several: engines share nothing), then generate from ids, from
// text, or from a conversation. Errors are values; no function throws, prints or ends the process.
//
//   auto engine = skein::Engine::Load("model.gguf", {});
//   if (!engine.ok()) return Report(engine.status());
//   auto answer = engine->Chat({{"user", "Say hello."}}, {}, [](const skein::Piece& piece) {
//     std::cout << piece.text << std::flush;
//     return skein::Next::kContinue;
//   });
//
// Thread rule: all functions may be called by several threads at once; concurrent answers share the engine's steps.
// A callback runs on the thread that called Generate, and may take its time: only its own answer waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "skein/options.h"
#include "skein/status.h"

namespace skein {

struct TokenScore {
  std::int32_t token = 0;
  float logprob = 0;
};

struct GeneratedToken {
  std::int32_t token = 0;
  float logprob = 0;            // of the model's own distribution, before temperature and the like
  std::vector<TokenScore> top;  // likeliest first
  // Time that steps of the engine took to compute since the token before, those of other answers included; and of that, in which ranks talked or
  // waited for each other.
  double steps_ms = 0, communication_ms = 0;
};

// A part of an answer as it arrives. `text` is whole characters and may be empty (half a character so far, or the
// beginning of what may become a stop text).
struct Piece {
  std::string_view text;
  const GeneratedToken* token = nullptr;  // that brought it; nullptr for what was held back until the end
};

enum class Next { kContinue, kStop };
using PieceCallback = std::function<Next(const Piece& piece)>;

// Ends answers from outside: another thread, or a signal handler.
class Cancellation {
 public:
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  void Reset() { cancelled_.store(false, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_{false};
};

enum class FinishReason { kStop, kLength, kCancelled };
std::string_view NameOf(FinishReason reason);  // "stop", "length", "cancelled"

struct Timing {
  double first_token_ms = 0;  // from the call to the first token; 0: there was none
  double total_ms = 0;
  double prefill_tokens_per_s = 0;  // tokens of the prompt that were computed, up to the first generated one
  double decode_tokens_per_s = 0;   // generated tokens after the first
};

struct Answer {
  std::vector<std::int32_t> prompt_tokens;
  std::vector<GeneratedToken> tokens;  // the end-of-answer token included, where one ended it
  std::string text;
  FinishReason finish_reason = FinishReason::kLength;
  Timing timing;
};

struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// What was loaded and how it runs.
struct ModelInfo {
  std::string name;
  std::string architecture;
  std::uint64_t parameters = 0;
  std::string weight_format;
  std::string arithmetic;
  std::string kernels;
  std::string kv_dtype;
  int threads = 0;
  int pipe = 1, tensor = 1;  // the mesh
  std::string transport;     // of its ranks; empty: there is one
  std::string wire;
  std::string outer_wire;    // between hosts; empty: they are on one
  int vocabulary = 0;
  int context = 0;         // longest sequence that this engine takes
  int model_context = 0;   // longest that the model was made for
  bool has_chat_template = false;
  double load_ms = 0;
  std::string packed_cache;          // "read", "written", or nothing
  std::string packed_cache_trouble;  // why one was not used or not written, a line
};

class Engine {
 public:
  // `path` is a GGUF file or a Hugging Face folder. Errors: kInvalidArgument (nothing there, an option that this model
  // does not have), kInvalidFile (with the field's name), kLimit (memory, refused before loading).
  static Result<Engine> Load(const std::string& path, const EngineOptions& options, const LoadProgress& progress = {});
  // Answers that are still generated on other threads must have ended.
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  const ModelInfo& info() const;

  // Continues `prompt`. Errors: kInvalidArgument (an empty prompt), kLimit (a prompt longer than the context, an id
  // outside the vocabulary: names both numbers). An answer that was cancelled is an answer, with what there is.
  Result<Answer> Generate(std::span<const std::int32_t> prompt, const GenerateOptions& options,
                          const PieceCallback& callback = {}, const Cancellation* cancellation = nullptr);
  // Continues plain text.
  Result<Answer> Complete(std::string_view text, const GenerateOptions& options, const PieceCallback& callback = {},
                          const Cancellation* cancellation = nullptr);
  // Answers a conversation through the model's chat template.
  Result<Answer> Chat(const std::vector<Message>& messages, const GenerateOptions& options,
                      const PieceCallback& callback = {}, const Cancellation* cancellation = nullptr);

  // Text to ids. Control tokens written in the text are found only with `parse_special`.
  Result<std::vector<std::int32_t>> Tokenize(std::string_view text, bool add_special = true,
                                             bool parse_special = false) const;
  std::string Detokenize(std::span<const std::int32_t> tokens, bool skip_special = true) const;
  // A conversation as ids, ready for the assistant's turn. What messages say never becomes a control token.
  Result<std::vector<std::int32_t>> ChatTokens(const std::vector<Message>& messages) const;

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace skein
