// SPDX-License-Identifier: Apache-2.0
#include "formats/synthetic_vocabulary.h"

#include "base/check.h"

namespace skein::formats {
namespace {

// UTF-8 of a code point below U+0800.
std::string Encoded(unsigned code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// The letter that stands for each byte: itself where it prints, the letters from U+0100 on for the others in order.
// Source: GPT-2's byte-level BPE.
std::vector<std::string> ByteLetters() {
  std::vector<std::string> letters;
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    letters.push_back(Encoded(prints ? byte : next++));
  }
  return letters;
}

}  // namespace

SyntheticVocabulary MakeVocabulary(int size) {
  constexpr std::int32_t kNormal = 1;
  constexpr std::int32_t kControl = 3;
  SKEIN_CHECK(size >= 257);
  SKEIN_CHECK(size <= 400'000);
  const std::vector<std::string> letters = ByteLetters();
  SyntheticVocabulary made;
  made.tokens.push_back("<|endoftext|>");
  made.token_types.push_back(kControl);
  made.tokens.insert(made.tokens.end(), letters.begin(), letters.end());
  // Stems in order of length; each is followed by every lower-case letter in turn, which makes the next length.
  std::vector<std::string> stems = {letters[' ']};
  for (char letter = 'a'; letter <= 'z'; ++letter) stems.push_back(std::string(1, letter));
  for (std::size_t stem = 0; made.tokens.size() < static_cast<std::size_t>(size); ++stem) {
    for (char letter = 'a'; letter <= 'z' && made.tokens.size() < static_cast<std::size_t>(size); ++letter) {
      made.merges.push_back(stems[stem] + ' ' + letter);
      stems.push_back(stems[stem] + letter);
      made.tokens.push_back(stems.back());
    }
  }
  made.token_types.resize(made.tokens.size(), kNormal);
  return made;
}

}  // namespace skein::formats
