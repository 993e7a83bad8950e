// SPDX-License-Identifier: Apache-2.0
#include "text/detokenizer.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "text/tiny_tokenizer.h"

namespace skein::text {
namespace {

TEST(Detokenizer, NeverGivesHalfACharacter) {
  // A terminal or a JSON stream would show broken characters while an answer comes.
  const auto tokenizer = TinyTokenizer().Make();
  Detokenizer detokenizer(*tokenizer);
  const std::vector<TokenId> ids = tokenizer->Encode("h\u00E9\U0001F600!");
  std::vector<std::string> pieces;
  for (const TokenId id : ids) pieces.push_back(detokenizer.Push(id));
  EXPECT_EQ(pieces, (std::vector<std::string>{"h", "", "\u00E9", "", "", "", "\U0001F600", "!"}));
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(Detokenizer, AnUnfinishedCharacterBecomesOneReplacement) {
  // An answer cut by its length limit would end in broken bytes.
  const auto tokenizer = TinyTokenizer().Make();
  Detokenizer detokenizer(*tokenizer);
  std::vector<TokenId> ids = tokenizer->Encode("a\U0001F600");
  ids.pop_back();
  std::string text;
  for (const TokenId id : ids) text += detokenizer.Push(id);
  EXPECT_EQ(text, "a");
  EXPECT_EQ(detokenizer.Finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(Detokenizer, SpecialTokensAreShownOnlyWhenAsked) {
  // Answers would end with <|end|> on the user's screen.
  const auto tokenizer = TinyTokenizer().Make();
  Detokenizer hidden(*tokenizer), shown(*tokenizer, /*skip_special=*/false);
  EXPECT_EQ(hidden.Push(400), "");
  EXPECT_EQ(hidden.Push(401), "<think>");
  EXPECT_EQ(shown.Push(400), "<|end|>");
  EXPECT_EQ(shown.Push(-1) + shown.Push(5000), "");
}

TEST(Detokenizer, StreamedTextIsTheDecodedText) {
  // Streaming clients would get another answer than those that wait.
  const auto tokenizer = TinyTokenizer().Make();
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> ids;
    for (std::size_t count = random() % 12; ids.size() < count;) ids.push_back(static_cast<TokenId>(random() % 5 == 0 ? 400 : random() % 256));
    Detokenizer detokenizer(*tokenizer);
    std::string text;
    for (const TokenId id : ids) {
      const std::string piece = detokenizer.Push(id);
      ASSERT_TRUE(IsValidUtf8(piece)) << "round " << round;
      text += piece;
    }
    text += detokenizer.Finish();
    ASSERT_EQ(text, tokenizer->Decode(ids, /*skip_special=*/true)) << "round " << round;
  }
}

}  // namespace
}  // namespace skein::text
