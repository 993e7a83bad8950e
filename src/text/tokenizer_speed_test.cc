// SPDX-License-Identifier: Apache-2.0
//
// The time for a megabyte of the texts that make careless algorithms quadratic. CPU time of this thread, so that a
// busy machine does not matter; printed per text. The bound here is loose, it is there to catch a wrong order.
#include <time.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "formats/tokenizer_file.h"
#include "text/tiny_tokenizer.h"

namespace skein::text {
namespace {


double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string Repeated(std::string_view unit, std::size_t bytes) {
  std::string text;
  while (text.size() + unit.size() <= bytes) text.append(unit);
  return text;
}

std::map<std::string, std::string> LargeTexts(std::size_t bytes) {
  std::mt19937 random(3);
  std::string letters, alternating = "e";
  while (letters.size() < bytes) letters.push_back("etaoinshrdlu"[random() % 12]);
  while (alternating.size() + 4 <= bytes) alternating += "\xCC\x81\xCC\xA3";  // marks of two classes, out of order
  return {
      {"one letter", Repeated("a", bytes)},
      {"spaces", Repeated(" ", bytes)},
      {"spaces and a letter", Repeated(" ", bytes) + "a"},
      {"digits", Repeated("7", bytes)},
      {"digits of another script", Repeated("\xD9\xA7", bytes)},
      {"lines", Repeated("\n", bytes)},
      {"a line and spaces", "\n" + Repeated(" ", bytes)},
      {"two letters", Repeated("ab", bytes)},
      {"openings", Repeated("<|", bytes)},
      {"apostrophes", Repeated("'", bytes)},
      {"joined emoji", Repeated("\xF0\x9F\x91\xA9\xE2\x80\x8D", bytes)},
      {"controls", Repeated("\x01", bytes)},
      {"accents on one letter", "e" + Repeated("\xCC\x81", bytes)},
      {"accents out of order", alternating},
      {"no spaces", letters},
      {"Chinese", Repeated("\xE4\xBD\xA0\xE5\xA5\xBD", bytes)},
      {"malformed", Repeated("\xFF\xE4", bytes)},
      {"English", Repeated("The quick brown fox, which has 4 legs, jumps over the lazy dog. ", bytes)},
  };
}

void MeasureAll(const Tokenizer& tokenizer, const std::string& name, std::size_t bytes) {
  double worst = 0;
  std::string times;
  for (const auto& [label, text] : LargeTexts(bytes)) {
    const double start = CpuSeconds();
    const std::vector<TokenId> ids = tokenizer.Encode(text);
    const double spent = CpuSeconds() - start;
    EXPECT_GT(ids.size(), 0u);
    EXPECT_LT(spent, 5.0) << name << ": " << label;
    worst = std::max(worst, spent);
    times += fmt::format(" {} {:.0f} ms,", label, spent * 1e3);
  }
  std::cout << name << ": worst " << static_cast<int>(worst * 1e3) << " ms;" << times << "\n";
}

TEST(TokenizerSpeed, AMegabyteOfAnythingTakesNoLongerThanOfEnglish) {
  // One request with an odd prompt would keep a server's text thread busy for minutes.
  TinyTokenizer tiny;
  tiny.merges = {{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}, {"a", "b"}, {"Ġ", "Ġ"}, {"ĠĠ", "ĠĠ"}, {"t", "h"}, {"th", "e"}, {"e", "r"}, {"i", "n"}};
  MeasureAll(*tiny.Make(), "tiny, 256 KiB", 1 << 18);
}

TEST(TokenizerSpeed, TheDefaultModelIsBuiltAndEncodesQuickly) {
  // `skein run` would start late, and long prompts would wait before the first step.
  const char* model = std::getenv("SKEIN_TEST_MODEL");
  if (model == nullptr) GTEST_SKIP() << "SKEIN_TEST_MODEL is not set";
  Result<formats::TokenizerFile> file = formats::OpenTokenizer(model);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const double start = CpuSeconds();
  Result<std::unique_ptr<Tokenizer>> made = Tokenizer::Create(file->data);
  ASSERT_TRUE(made.ok());
  std::cout << "built in " << (CpuSeconds() - start) * 1e3 << " ms\n";
  MeasureAll(**made, "default model, 1 MiB", 1 << 20);
}

}  // namespace
}  // namespace skein::text
