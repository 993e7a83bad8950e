// SPDX-License-Identifier: Apache-2.0
#include "text/pre_tokenizer.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace skein::text {
namespace {

// The words, joined with "|".
std::string Words(std::string_view name, std::string_view text) {
  CodePoints points;
  points.Assign(text);
  std::vector<std::uint32_t> ends;
  FindPreTokenizer(name)(points, 0, points.size(), ends);
  std::string joined;
  std::size_t begin = 0;
  for (const std::uint32_t end : ends) {
    joined.append(joined.empty() ? "" : "|").append(text.substr(begin, points.offsets[end] - begin));
    begin = points.offsets[end];
  }
  EXPECT_EQ(begin, text.size());
  return joined;
}

TEST(PreTokenizer, Gpt2) {
  // All models with this pre-tokenizer would get tokens that they hardly know.
  EXPECT_EQ(Words("gpt-2", "Hello, world's 42nd  day!\n\n  x "), "Hello|,| world|'s| 42|nd| | day|!|\n\n | x| ");
  EXPECT_EQ(Words("gpt-2", "we'll WE'LL don't"), "we|'ll| WE|'|LL| don|'t");
  EXPECT_EQ(Words("gpt-2", "a\t b  "), "a|\t| b|  ");
  EXPECT_EQ(Words("gpt-2", ""), "");
}

TEST(PreTokenizer, SmollmTakesDigitsOneByOne) {
  // The default model would read numbers wrongly.
  EXPECT_EQ(Words("smollm", "a 2024 b"), "a| |2|0|2|4| b");
  EXPECT_EQ(Words("smollm", "x  1"), "x|  |1");
  EXPECT_EQ(Words("smollm", "12"), "1|2");
}

TEST(PreTokenizer, LlamaGroupsThreeDigitsAndKeepsBreaksTogether) {
  // Llama 3 models would read code and numbers wrongly.
  EXPECT_EQ(Words("llama-bpe", "12345 I'LL .foo();\n\n  x"), "123|45| I|'LL| .|foo|();\n\n| | x");
  EXPECT_EQ(Words("llama-bpe", " \n \n  a"), " \n \n| | a");
  EXPECT_EQ(Words("qwen2", "12345"), "1|2|3|4|5");
}

TEST(PreTokenizer, DeepSeekTakesEastAsianTextApart) {
  // DeepSeek models would read Chinese wrongly.
  EXPECT_EQ(Words("deepseek-v3", "x=1234 \u4F60\u597Dab \x01\x02" "c"), "x|=|123|4| |\u4F60\u597D|ab| |\x01|\x02" "c");
}

TEST(PreTokenizer, FalconCutsThreeDigitsOutOfRuns) {
  // Falcon models would read numbers wrongly.
  EXPECT_EQ(Words("falcon", "a, 12345"), "a|,| |123|45");
}

TEST(PreTokenizer, TheRegistryIsSortedAndKnowsNothingElse) {
  // A tokenizer with a typo in its name would be taken for some other one.
  const auto names = PreTokenizerNames();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const std::string_view name : names) EXPECT_NE(FindPreTokenizer(name), nullptr);
  EXPECT_EQ(FindPreTokenizer("gpt"), nullptr);
}

}  // namespace
}  // namespace skein::text
