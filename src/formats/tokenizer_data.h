// SPDX-License-Identifier: Apache-2.0
//
// TokenizerData is what a model's files say about its tokenizer, whatever their format: pieces, merges, added tokens
// and the rules around them. formats/tokenizer_json.cc and formats/tokenizer_gguf.cc fill and check it, text/tokenizer
// is built from it. It is data: nothing here was compiled yet, but every id is within the vocabulary and every merge
// names two pieces that exist and make a third.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace skein::formats {

enum class TokenizerKind { kByteLevelBpe };  // SentencePiece BPE, Unigram and WordPiece come later

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;      // left out by skip_special; found in text only when asked for
  bool single_word = false;  // only between non-word characters
  bool left_strip = false;   // takes the white space before it
  bool right_strip = false;
  bool normalized = false;   // searched in the normalised text
};

struct TokenizerData {
  TokenizerKind kind = TokenizerKind::kByteLevelBpe;
  // Pieces by id; byte-level BPE: in the printable letters that stand for bytes. Holes in the vocabulary are empty.
  std::vector<std::string> pieces;
  std::vector<std::pair<TokenId, TokenId>> merges;  // by rank
  std::vector<AddedToken> added;
  // The name of an entry of the registry of pre-tokenizers (text/pre_tokenizer.h): "gpt-2", "smollm", "llama-bpe", …
  std::string pre_tokenizer;
  bool ignore_merges = false;  // a whole word that is a piece is taken without merging
  bool nfc = false;            // text is normalised to NFC first
  TokenId bos = -1;            // -1: none
  TokenId eos = -1;
  TokenId unknown = -1;
  bool add_bos = false;  // in front of a text when special tokens are wanted
  bool add_eos = false;
};

}  // namespace skein::formats
