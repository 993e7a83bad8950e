// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <map>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "text/tiny_tokenizer.h"

namespace skein::text {
namespace {

using Ids = std::vector<TokenId>;

TokenId Byte(const Tokenizer& tokenizer, char letter) { return *tokenizer.Find(LetterOfByte(static_cast<unsigned char>(letter))); }

TEST(Tokenizer, MergesByRankAndDecodesBack) {
  // Every prompt would be read as other tokens than the model was trained on.
  TinyTokenizer tiny;
  tiny.merges = {{"t", "h"}, {"Ġ", "th"}, {"Ġth", "e"}, {"h", "e"}};
  const auto tokenizer = tiny.Make();
  EXPECT_EQ(tokenizer->Encode("he the"), (Ids{*tokenizer->Find("he"), *tokenizer->Find("Ġthe")}));
  const std::string text = "the \u00FCber-\U0001F600 the\n\n";
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text), false), text);
  EXPECT_EQ(tokenizer->PieceBytes(*tokenizer->Find("Ġthe")), " the");
  EXPECT_TRUE(tokenizer->Encode("").empty());
}

TEST(Tokenizer, SpecialTokensAreFoundOnlyInTrustedText) {
  // A user could end the system prompt by typing <|end|>.
  const auto tokenizer = TinyTokenizer().Make();
  EXPECT_EQ(tokenizer->Encode("a<|end|>"), (Ids{Byte(*tokenizer, 'a'), 400}));
  const Ids plain = tokenizer->Encode("<|end|>", {.add_special = true, .parse_special = false});
  EXPECT_EQ(plain.size(), 7u);
  const auto count = [&](std::vector<TextPart> parts) {
    const Ids ids = tokenizer->Encode(parts, /*add_special=*/false);
    return std::count(ids.begin(), ids.end(), 400);
  };
  EXPECT_EQ(count({{"<|end|>", true}, {"<|end|>", false}, {"<|end|>", true}}), 2);
  EXPECT_EQ(count({{"<|e", true}, {"nd|>", false}}), 0);   // never across a border of trust
  EXPECT_EQ(count({{"<|e", false}, {"nd|>", true}}), 0);
  EXPECT_EQ(count({{"<|e", true}, {"nd|>", true}}), 1);    // parts that are both trusted
  EXPECT_EQ(count({{"<|end", false}, {"<|end|>", true}}), 1);  // a user's text cannot hide the template's token
  EXPECT_EQ(tokenizer->Encode("<think>", {.add_special = true, .parse_special = false}), Ids{401});  // not special
}

TEST(Tokenizer, AUsersTextCannotShadowATemplatesToken) {
  // Text that begins a longer token would swallow the template's end token that follows.
  TinyTokenizer tiny;
  tiny.added = R"({"id": 400, "content": "<|end|>", "special": true, "normalized": false},
                  {"id": 401, "content": "x<|end|>y", "special": true, "normalized": false})";
  const auto tokenizer = tiny.Make();
  const std::vector<TextPart> parts = {{"x", false}, {"<|end|>y", true}};
  EXPECT_EQ(tokenizer->Encode(parts, false), (Ids{Byte(*tokenizer, 'x'), 400, Byte(*tokenizer, 'y')}));
}

TEST(Tokenizer, PartsBecomeTheTokensOfTheWholeText) {
  // A word that a template and a user write together would be cut differently from the reference.
  TinyTokenizer tiny;
  tiny.merges = {{"t", "h"}, {"Ġ", "th"}, {"Ġth", "e"}};
  const auto tokenizer = tiny.Make();
  const std::vector<TextPart> parts = {{"say t", true}, {"h", false}, {"e end", true}};
  EXPECT_EQ(tokenizer->Encode(parts, false), tokenizer->Encode("say the end"));
}

TEST(Tokenizer, TrustIsKeptThroughNormalisation) {
  // Composed characters would move the border between a user's text and the template's.
  TinyTokenizer tiny;
  tiny.normalizer = R"({"type": "NFC"})";
  tiny.added = R"({"id": 400, "content": "<|end|>", "special": true, "normalized": true})";
  const auto tokenizer = tiny.Make();
  const std::vector<TextPart> parts = {{"e\u0301e\u0301<|end|>", false}, {"<|end|>", true}, {"\u4F60<|end|>", false}};
  const Ids ids = tokenizer->Encode(parts, false);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 400), 1);
  EXPECT_EQ(tokenizer->Encode("e\u0301"), tokenizer->Encode("\u00E9"));
}

TEST(Tokenizer, FlagsOfAddedTokens) {
  // Templates that lean on lstrip and rstrip would leave stray spaces in prompts.
  TinyTokenizer tiny;
  tiny.added = R"({"id": 400, "content": "<m>", "special": true, "lstrip": true, "rstrip": true, "normalized": false},
                  {"id": 401, "content": "cat", "single_word": true, "normalized": false})";
  const auto tokenizer = tiny.Make();
  EXPECT_EQ(tokenizer->Encode("a \n<m>  b"), (Ids{Byte(*tokenizer, 'a'), 400, Byte(*tokenizer, 'b')}));
  EXPECT_EQ(tokenizer->Encode("cat"), Ids{401});
  EXPECT_EQ(tokenizer->Encode("cats").size(), 4u);
}

TEST(Tokenizer, BeginAndEndAreAddedWhenTheModelWantsThem) {
  // Llama models answer badly without their first token.
  TinyTokenizer tiny;
  tiny.post_processor = R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}},
    {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<think>", "type_id": 0}}], "pair": [], "special_tokens": {}})";
  const auto tokenizer = tiny.Make();
  EXPECT_EQ(tokenizer->Encode("a"), (Ids{400, Byte(*tokenizer, 'a'), 401}));
  EXPECT_EQ(tokenizer->Encode("a", {.add_special = false, .parse_special = true}), Ids{Byte(*tokenizer, 'a')});
  EXPECT_EQ(tokenizer->bos(), 400);
}

TEST(Tokenizer, MalformedTextCountsAsReplacementCharacters) {
  // A client that sends Latin-1 would crash the server or lose its request.
  const auto tokenizer = TinyTokenizer().Make();
  EXPECT_EQ(tokenizer->Encode("a\xFF\xE4\xBD" "b"), tokenizer->Encode("a\uFFFD\uFFFD" "b"));
}

TEST(Tokenizer, AnUnknownPreTokenizerIsAnError) {
  // A wrong one would make every answer a little worse, and nobody would know why.
  formats::TokenizerData data;
  data.pieces = {"a"};
  data.pre_tokenizer = "abacus";
  const auto made = Tokenizer::Create(data);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().message().find("abacus"), std::string::npos);
}

TEST(Tokenizer, ThreadsMayShareIt) {
  // Two requests at once would disturb each other.
  TinyTokenizer tiny;
  tiny.merges = {{"t", "h"}, {"th", "e"}};
  const auto tokenizer = tiny.Make();
  const std::string text = "the other <|end|> there";
  const Ids wanted = tokenizer->Encode(text);
  std::vector<std::jthread> threads;
  std::array<bool, 4> equal{};
  for (std::size_t index = 0; index < equal.size(); ++index) {
    threads.emplace_back([&, index] {
      equal[index] = true;
      for (int round = 0; round < 200; ++round) equal[index] = equal[index] && tokenizer->Encode(text) == wanted;
    });
  }
  threads.clear();
  EXPECT_EQ(equal, (std::array{true, true, true, true}));
}

// Byte pair encoding as its definition says it, one merge at a time over the whole word.
Ids PlainBpe(Ids ids, const std::vector<formats::Merge>& merges) {
  for (;;) {
    const formats::Merge* best = nullptr;
    std::size_t best_place = 0;
    for (std::size_t place = 0; place + 1 < ids.size(); ++place) {
      for (const formats::Merge& merge : merges) {
        if (merge.left == ids[place] && merge.right == ids[place + 1] && (best == nullptr || merge.rank < best->rank)) {
          best = &merge;
          best_place = place;
        }
      }
    }
    if (best == nullptr) return ids;
    ids[best_place] = best->result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best_place) + 1);
  }
}

TEST(Bpe, ShortAndLongWordsFollowTheDefinition) {
  // Long words would be tokenised differently from short ones.
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    // Any pair of pieces may merge, at any rank: later pieces often come before earlier ones.
    std::vector<formats::Merge> merges;
    std::map<std::pair<TokenId, TokenId>, bool> seen;
    TokenId next = 3;
    for (std::size_t count = 1 + random() % 12; merges.size() < count;) {
      const TokenId left = static_cast<TokenId>(random() % static_cast<unsigned>(next));
      const TokenId right = static_cast<TokenId>(random() % static_cast<unsigned>(next));
      if (std::exchange(seen[{left, right}], true)) continue;
      merges.push_back({left, right, next++, static_cast<std::uint32_t>(random() % 1000)});
    }
    // Ranks are distinct in byte-level vocabularies; equal ones (SentencePiece) are decided by place.
    const Bpe bpe(merges);
    Bpe::Scratch scratch;
    Ids word;
    for (std::size_t count = random() % 80; word.size() < count;) word.push_back(static_cast<TokenId>(random() % 3));
    Ids found;
    bpe.Apply(word, scratch, found);
    ASSERT_EQ(found, PlainBpe(word, merges)) << "round " << round;
  }
}

}  // namespace
}  // namespace skein::text
