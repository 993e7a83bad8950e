// SPDX-License-Identifier: Apache-2.0
#include "server/openai/choice_text.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "text/tiny_tokenizer.h"

namespace skein::server {
namespace {

using engine::FinishReason;

constexpr TokenId kEnd = 400;  // <|end|> of the tiny tokenizer

// What a client has put together from the pieces of a stream.
ChoicePiece Together(std::vector<ChoicePiece> pieces) {
  ChoicePiece all;
  for (ChoicePiece& piece : pieces) {
    all.content += piece.content;
    all.reasoning += piece.reasoning;
    for (TokenEntry& entry : piece.entries) all.entries.push_back(std::move(entry));
    all.token_ids.insert(all.token_ids.end(), piece.token_ids.begin(), piece.token_ids.end());
    if (!piece.finish_reason.empty()) {
      EXPECT_EQ(all.finish_reason, "") << "an answer has one finish reason";
      all.finish_reason = piece.finish_reason;
      all.stop_reason = piece.stop_reason;
    }
  }
  return all;
}

class ChoiceTextTest : public testing::Test {
 protected:
  // Bytes are tokens of their own: id = byte.
  std::vector<TokenId> Bytes(std::string_view text) {
    std::vector<TokenId> ids;
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    return ids;
  }

  // The answer to these tokens, streamed; checks that a whole answer is the same.
  ChoicePiece Run(const std::vector<TokenId>& tokens, const ChoiceTextOptions& options,
                  FinishReason reason = FinishReason::kLength) {
    ChoiceText streamed(*tokenizer_, options), whole(*tokenizer_, options);
    std::vector<ChoicePiece> pieces;
    ChoicePiece at_once;
    for (const TokenId token : tokens) {
      const scheduler::ScoredToken scored{.token = token, .logprob = -0.5f};
      ChoicePiece piece;
      const bool more = streamed.Push(scored, piece);
      EXPECT_EQ(whole.Push(scored, at_once), more);
      EXPECT_TRUE(text::IsValidUtf8(piece.content)) << "half a character";
      pieces.push_back(std::move(piece));
      if (!more) break;
    }
    ChoicePiece last;
    streamed.Finish(reason, last);
    whole.Finish(reason, at_once);
    pieces.push_back(std::move(last));
    ChoicePiece all = Together(std::move(pieces));
    EXPECT_EQ(all.content, at_once.content);
    EXPECT_EQ(all.reasoning, at_once.reasoning);
    EXPECT_EQ(all.entries.size(), at_once.entries.size());
    EXPECT_EQ(all.finish_reason, at_once.finish_reason);
    token_count_ = streamed.token_count();
    return all;
  }

  const std::unique_ptr<text::Tokenizer> tokenizer_ = text::TinyTokenizer().Make();
  std::int32_t token_count_ = 0;
};

TEST_F(ChoiceTextTest, CutsInFrontOfAStopText) {
  // An agent that stops at "\nObservation:" would read what the model made up behind it.
  const ChoicePiece answer = Run(Bytes("one two three four"), {.stop = {"wo th"}, .token_ids = true});
  EXPECT_EQ(answer.content, "one t");
  EXPECT_EQ(answer.finish_reason, "stop");
  EXPECT_EQ(answer.stop_reason, "\"wo th\"");
  EXPECT_EQ(token_count_, 10) << "tokens up to the one that completed the stop text are paid for, and no more";
  EXPECT_EQ(answer.token_ids.size(), 10u);
}

TEST_F(ChoiceTextTest, IncludesTheStopTextWhenAsked) {
  // A client that parses "</answer>" would miss it.
  EXPECT_EQ(Run(Bytes("one two"), {.stop = {"e t"}, .include_stop = true}).content, "one t");
}

TEST_F(ChoiceTextTest, GivesOutAnUnfinishedStopText) {
  // The last letters of an answer would be lost.
  const ChoicePiece answer = Run(Bytes("one two"), {.stop = {"two three"}});
  EXPECT_EQ(answer.content, "one two");
  EXPECT_EQ(answer.finish_reason, "length");
}

TEST_F(ChoiceTextTest, LooksForStopTextsOnlyAfterMinTokens) {
  // min_tokens would not hold.
  EXPECT_EQ(Run(Bytes("aXbXc"), {.stop = {"X"}, .min_tokens = 3}).content, "aXb");
}

TEST_F(ChoiceTextTest, DoesNotShowTheStopToken) {
  // Answers would end in <|end|>, or in whatever token a client named as the end.
  std::vector<TokenId> tokens = Bytes("hi");
  tokens.push_back(kEnd);
  const ChoicePiece answer =
      Run(tokens, {.stop_tokens = {kEnd}, .skip_special = false, .logprobs = true}, FinishReason::kStop);
  EXPECT_EQ(answer.content, "hi");
  EXPECT_EQ(answer.stop_reason, "400");
  EXPECT_EQ(answer.entries.size(), 3u) << "it was generated, so it has a log-probability";
  const ChoicePiece letter = Run(Bytes("hi!"), {.stop_tokens = {'!'}}, FinishReason::kStop);
  EXPECT_EQ(letter.content, "hi");
}

TEST_F(ChoiceTextTest, NeverTearsACharacter) {
  // Clients would get surrogates or question marks.
  EXPECT_EQ(Run(Bytes("a\xF0\x9F\x98\x8A!"), {}).content, "a\xF0\x9F\x98\x8A!");
  EXPECT_EQ(Run(Bytes("a\xF0\x9F"), {}).content, "a\xEF\xBF\xBD") << "what can become no character any more is U+FFFD";
}

TEST_F(ChoiceTextTest, EntriesAreInStepWithTheText) {
  // Log-probabilities would tell of text that the client must not see, or come apart from it.
  const ChoicePiece cut = Run(Bytes("one two three"), {.stop = {" two"}, .logprobs = true});
  EXPECT_EQ(cut.content, "one");
  ASSERT_EQ(cut.entries.size(), 3u);
  EXPECT_EQ(cut.entries[2].text_offset, 2);
  const ChoicePiece included = Run(Bytes("one two three"), {.stop = {" two"}, .include_stop = true, .logprobs = true});
  EXPECT_EQ(included.entries.size(), 7u);
  const ChoicePiece nothing = Run(Bytes("one"), {.stop = {"on"}, .logprobs = true});
  EXPECT_EQ(nothing.entries.size(), 0u);
  const ChoicePiece all = Run(Bytes("\xC3\xA9t\xC3\xA9"), {.logprobs = true, .text_offset = 10});
  ASSERT_EQ(all.entries.size(), 5u);
  EXPECT_EQ(all.entries[2].text_offset, 11) << "offsets count characters";
}

TEST_F(ChoiceTextTest, ATokenPartlyKeptKeepsItsEntry) {
  // A stop text that begins inside a token would take the entry of text that is shown.
  const std::unique_ptr<text::Tokenizer> tokenizer = text::TinyTokenizer{.merges = {{"a", "b"}, {"c", "d"}}}.Make();
  ChoiceText choice(*tokenizer, {.stop = {"bcd"}, .logprobs = true});
  ChoicePiece piece;
  EXPECT_TRUE(choice.Push({.token = 256}, piece));
  EXPECT_FALSE(choice.Push({.token = 257}, piece));
  EXPECT_EQ(piece.content, "a");
  ASSERT_EQ(piece.entries.size(), 1u);
  EXPECT_EQ(piece.entries[0].scored.token, 256);
}

TEST_F(ChoiceTextTest, PartsReasoningFromContent) {
  // Chat windows would show the model's thinking as its answer.
  const ChoicePiece answer = Run(Bytes("<think>\nhm </thi\n</think>\n\nYes."), {.reasoning = true});
  EXPECT_EQ(answer.reasoning, "hm </thi\n");
  EXPECT_EQ(answer.content, "Yes.");
  const ChoicePiece opened = Run(Bytes("hm</think>Yes"), {.reasoning = true, .opens_reasoning = true});
  EXPECT_EQ(opened.reasoning, "hm");
  EXPECT_EQ(opened.content, "Yes");
  const ChoicePiece plain = Run(Bytes("Yes <think>no</think>"), {.reasoning = true});
  EXPECT_EQ(plain.content, "Yes <think>no</think>") << "only an answer that begins with the tag has reasoning";
  const ChoicePiece unfinished = Run(Bytes("<think>hm</thi"), {.reasoning = true});
  EXPECT_EQ(unfinished.reasoning, "hm</thi");
  EXPECT_EQ(Run(Bytes(" <thi"), {.reasoning = true}).content, " <thi");
}

TEST_F(ChoiceTextTest, StreamsAndWholeAnswersAgreeOnAnything) {
  // Two clients that ask the same would get two answers. Run compares; here for random bytes and stop texts.
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    std::vector<TokenId> tokens;
    for (int i = 0; i < 40; ++i) tokens.push_back("ab\xC3\xA9\xF0\x9F\x98\x8A<"[random() % 9] & 0xff);
    const std::string stop = std::string("ab") + (random() % 2 ? "a" : "\xC3\xA9");
    const ChoicePiece answer = Run(tokens, {.stop = {stop}, .logprobs = true, .reasoning = random() % 2 == 0});
    EXPECT_EQ(answer.content.find(stop), std::string::npos);
  }
}

}  // namespace
}  // namespace skein::server
