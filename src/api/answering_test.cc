// SPDX-License-Identifier: Apache-2.0
//
// Tests of AnswerQuestion with a scripted engine: stop texts, half characters, endings.
#include "api/answering.h"

#include <gtest/gtest.h>

#include <thread>

#include "text/tiny_tokenizer.h"

namespace skein::api {
namespace {

// Gives out the tokens of a script, one a millisecond, on a thread of its own.
class ScriptedClient final : public engine::EngineClient {
 public:
  explicit ScriptedClient(std::vector<TokenId> script) : script_(std::move(script)) {}
  ~ScriptedClient() override {
    if (thread_.joinable()) thread_.join();
  }

  Status Submit(engine::RequestSpec request, std::shared_ptr<engine::TokenSink> sink) override {
    thread_ = std::thread([this, request, sink] {
      std::int32_t index = 0;
      for (const TokenId token : script_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (cancelled_) break;
        scheduler::ScoredToken scored;
        scored.token = token;
        sink->OnToken({.request = request.request, .epoch = 0, .index = index++, .token = scored});
      }
      engine::FinishedEvent finished;
      finished.request = request.request;
      finished.reason = cancelled_ ? engine::FinishReason::kCancelled : engine::FinishReason::kLength;
      sink->OnFinished(finished);
    });
    return OkStatus();
  }
  void Cancel(RequestId) override { cancelled_ = true; }
  void Wake() override {}
  engine::EngineStats Stats() const override { return {}; }
  bool cancelled() const { return cancelled_; }

 private:
  std::vector<TokenId> script_;
  std::atomic<bool> cancelled_{false};
  std::thread thread_;
};

std::vector<TokenId> BytesOf(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

struct Fixture {
  std::unique_ptr<text::Tokenizer> tokenizer = text::TinyTokenizer().Make();
  std::vector<TokenId> prompt{1};
  std::vector<TokenId> stop_tokens{400};
  GenerateOptions options;
  PieceCallback callback;
  Cancellation cancellation;

  Answer Ask(engine::EngineClient& client) {
    Result<Answer> answer = AnswerQuestion(client, *tokenizer, {.request = {1},
                                                                .prompt = prompt,
                                                                .stop_tokens = stop_tokens,
                                                                .options = options,
                                                                .callback = callback,
                                                                .cancellation = &cancellation});
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return answer.ok() ? *answer : Answer();
  }
};

// If this failed, an answer would run past its stop text or lose a letter before it.
TEST(Answering, StopTextsCutExactlyAndEndTheRequest) {
  Fixture fixture;
  std::string streamed;
  fixture.options.stop = {"END"};
  fixture.callback = [&](const Piece& piece) {
    streamed += piece.text;
    return Next::kContinue;
  };
  ScriptedClient client(BytesOf("one ENEND two and a long rest that nobody wants to wait for ........................"));
  const Answer answer = fixture.Ask(client);
  EXPECT_EQ(answer.text, "one EN");
  EXPECT_EQ(streamed, answer.text);
  EXPECT_EQ(answer.finish_reason, FinishReason::kStop);
  EXPECT_EQ(answer.tokens.size(), 9u);
  EXPECT_TRUE(client.cancelled());
}

// If this failed, a terminal would show broken characters, or the end of an answer would be lost.
TEST(Answering, PiecesAreWholeCharactersAndTogetherTheText) {
  Fixture fixture;
  fixture.options.stop = {"zz"};
  std::vector<std::string> pieces;
  fixture.callback = [&](const Piece& piece) {
    if (!piece.text.empty()) pieces.emplace_back(piece.text);
    return Next::kContinue;
  };
  ScriptedClient client(BytesOf("a\xc3\xa9\xf0\x9f\x98\x80z"));
  const Answer answer = fixture.Ask(client);
  EXPECT_EQ(pieces, (std::vector<std::string>{"a", "\xc3\xa9", "\xf0\x9f\x98\x80", "z"}));
  EXPECT_EQ(answer.text, "a\xc3\xa9\xf0\x9f\x98\x80z");
  EXPECT_EQ(answer.finish_reason, FinishReason::kLength);
}

// If this failed, the end-of-answer token would be part of what people read.
TEST(Answering, TheEndTokenIsReportedAndNotShown) {
  Fixture fixture;
  ScriptedClient client({'o', 'k', 400});
  const Answer answer = fixture.Ask(client);
  EXPECT_EQ(answer.text, "ok");
  EXPECT_EQ(answer.tokens.size(), 3u);
}

// If this failed, Ctrl-C or a caller that has enough could not end an answer.
TEST(Answering, EndsWhenNobodyWantsMore) {
  Fixture by_callback;
  int calls = 0;
  by_callback.callback = [&](const Piece&) { return ++calls == 3 ? Next::kStop : Next::kContinue; };
  ScriptedClient first(std::vector<TokenId>(5000, 'x'));
  const Answer answer = by_callback.Ask(first);
  EXPECT_EQ(answer.finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(answer.text, "xxx");
  EXPECT_EQ(calls, 3);

  Fixture from_outside;
  std::thread impatient([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    from_outside.cancellation.Cancel();
  });
  ScriptedClient second(std::vector<TokenId>(5000, 'x'));
  EXPECT_EQ(from_outside.Ask(second).finish_reason, FinishReason::kCancelled);
  impatient.join();
}

}  // namespace
}  // namespace skein::api
