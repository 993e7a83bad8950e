// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <gtest/gtest.h>

#include "text/normalizer.h"

namespace skein::text {
namespace {

TEST(Unicode, MalformedPartsAreMaximal) {
  // Decoded text would differ from that of the libraries that everyone compares with.
  EXPECT_EQ(RepairUtf8("a\x80" "b"), "a\uFFFD" "b");
  EXPECT_EQ(RepairUtf8("\xE4\xBD"), "\uFFFD");
  EXPECT_EQ(RepairUtf8("\xF0\x9F\x98" "a"), "\uFFFD" "a");
  EXPECT_EQ(RepairUtf8("\xC0\xAF"), "\uFFFD\uFFFD");              // longer form than needed
  EXPECT_EQ(RepairUtf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");    // surrogate
  EXPECT_EQ(RepairUtf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // past U+10FFFF
  EXPECT_EQ(RepairUtf8("\xE0\x80"), "\uFFFD\uFFFD");
}

TEST(Unicode, EveryCodePointGoesThroughUtf8AndBack) {
  // Some languages' text would be taken for malformed.
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    AppendUtf8(c, text);
    const Decoded found = DecodeUtf8(text, 0);
    ASSERT_TRUE(found.valid && found.code_point == c && found.bytes == text.size()) << static_cast<std::uint32_t>(c);
  }
}

TEST(Unicode, ClassesAreThoseOfThePatterns) {
  // Words would be cut in other places than in training.
  EXPECT_EQ(ClassOf('a'), CharClass::kLetter);
  EXPECT_EQ(ClassOf(0x4F60), CharClass::kLetter);
  EXPECT_EQ(ClassOf(0x301), CharClass::kMark);
  EXPECT_EQ(ClassOf('7'), CharClass::kNumber);
  EXPECT_EQ(ClassOf(0xBD), CharClass::kNumber);
  EXPECT_EQ(ClassOf('$'), CharClass::kSymbol);
  EXPECT_EQ(ClassOf('_'), CharClass::kPunctuation);
  EXPECT_EQ(ClassOf(0x3000), CharClass::kSpace);
  EXPECT_EQ(ClassOf(0x85), CharClass::kSpace);
  EXPECT_EQ(ClassOf(0x200B), CharClass::kOther);
  EXPECT_EQ(ClassOf(0x1C), CharClass::kOther);
}

TEST(Unicode, NfcComposesReordersAndLeavesTheRest) {
  // The same word typed on two systems would become different tokens.
  const Normalizer nfc{.nfc = true, .lowercase = false};
  EXPECT_EQ(nfc.Apply("e\u0301"), "\u00E9");
  EXPECT_EQ(nfc.Apply("a\u0301\u0323"), "\u1EA1\u0301");           // the mark below goes first
  EXPECT_EQ(nfc.Apply("\u1100\u1161\u11A8"), "\uAC01");           // Hangul
  EXPECT_EQ(nfc.Apply("\uAC00\u11A8"), "\uAC01");
  EXPECT_EQ(nfc.Apply("\u2126"), "\u03A9");                       // a singleton
  EXPECT_EQ(nfc.Apply("\u0F73"), "\u0F71\u0F72");                 // excluded from composition
  EXPECT_EQ(nfc.Apply("\u0958x"), "\u0915\u093Cx");
  EXPECT_EQ(nfc.Apply("<|a|>\uFB01 \u4F60"), "<|a|>\uFB01 \u4F60");
}

TEST(Unicode, LowerCaseIsPerCharacter) {
  // Lower-casing tokenizers would see other letters.
  const Normalizer lower{.nfc = false, .lowercase = true};
  EXPECT_EQ(lower.Apply("ABC\u00C9\u0130\u03A3"), "abc\u00E9i\u0307\u03C3");
}

}  // namespace
}  // namespace skein::text
