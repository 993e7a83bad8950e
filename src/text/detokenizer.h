// SPDX-License-Identifier: Apache-2.0
//
// Detokenizer turns the tokens of one sequence into text as they come. What it gives out never ends inside a
// character: bytes that may still become one wait for the next token. All pieces together are exactly what
// Tokenizer::Decode gives for all ids. One per sequence, owned by one thread; the tokenizer outlives it.
//
// Bytes that become no character are U+FFFD as the `tokenizers` library has it: one for every maximal malformed part
// of byte-level text; of SentencePiece's byte pieces, one for each piece of a row that is not all whole characters
// (so such a row waits for its end).
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace skein::text {

class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(&tokenizer), skip_special_(skip_special), drop_space_(tokenizer.drops_first_space()) {}

  // The text that is certain now; often empty for tokens that are parts of characters.
  std::string Push(TokenId id);
  void Push(TokenId id, std::string& text);  // appended

  // What waits can no longer become a character: it is given out as U+FFFD.
  std::string Finish();

 private:
  void AppendWhole(std::string& text);
  void AppendRow(std::string& text);

  const Tokenizer* tokenizer_;
  bool skip_special_;
  bool drop_space_;      // the next byte is the first, and is left out when it is a space
  std::string waiting_;  // the beginning of a character, or a row of byte pieces
};

}  // namespace skein::text
