// SPDX-License-Identifier: Apache-2.0
//
// TokenizerData is what a model's files say about its tokenizer, whatever their format: pieces, merges, added tokens
// and the rules around them. formats/tokenizer_json.cc and formats/tokenizer_gguf.cc fill and check it, text/tokenizer
// is built from it. It is data: nothing here was compiled yet, but every id is within the vocabulary and every merge
// names two pieces that exist and make a third.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace skein::formats {

// kSentencePiece is its BPE with byte fallback; Unigram and WordPiece come later.
enum class TokenizerKind { kByteLevelBpe, kSentencePiece };

// Two neighbouring pieces become one. The lowest rank goes first, the leftmost of equal ranks.
struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId result = 0;
  std::uint32_t rank = 0;
};

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
  std::vector<Merge> merges;
  std::vector<AddedToken> added;
  std::vector<TokenId> byte_pieces;  // kSentencePiece: 256 ids of <0x00> … <0xFF>, -1 where there is none
  // The name of an entry of the registry of pre-tokenizers (text/pre_tokenizer.h): "gpt-2", "smollm", "llama-bpe", …
  // kSentencePiece: empty.
  std::string pre_tokenizer;
  bool ignore_merges = false;  // a whole word that is a piece is taken without merging
  bool nfc = false;            // text is normalised to NFC first
  bool lowercase = false;      // then to lower case
  bool space_prefix = false;   // kSentencePiece: text begins with a space that decoding takes away again
  TokenId bos = -1;            // -1: none
  TokenId eos = -1;
  TokenId unknown = -1;  // stands for what no piece covers; -1: such bytes are left out
  bool add_bos = false;  // in front of a text when special tokens are wanted
  bool add_eos = false;
};

}  // namespace skein::formats
