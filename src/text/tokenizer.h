// SPDX-License-Identifier: Apache-2.0
//
// Tokenizer turns text into token ids and back, as the model's files describe it. Built once per model from
// formats::TokenizerData, then immutable: any number of threads may use it at once. Encoding is O(n log n) for any
// text, decoding linear.
//
// Text that is not valid UTF-8 is no error: every maximal malformed part counts as U+FFFD.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "formats/piece_index.h"
#include "formats/tokenizer_data.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"

namespace skein::text {

struct EncodeOptions {
  bool add_special = true;    // BOS and EOS, where the model wants them
  bool parse_special = true;  // special tokens in the text become their ids
};

// A piece of a prompt and where it came from. Only in trusted text (a template's own) are special tokens found; all
// else is tokenised as if the parts were one text.
struct TextPart {
  std::string_view text;
  bool trusted = false;
};

class Tokenizer {
 public:
  // kInvalidFile when the pre-tokenizer is not known.
  static Result<std::unique_ptr<Tokenizer>> Create(const formats::TokenizerData& data);

  // Requires: less than 4 GiB of text.
  std::vector<TokenId> Encode(std::string_view text, EncodeOptions options = {}) const;
  // A special token lies wholly in trusted parts that touch. Characters do not lie across parts.
  std::vector<TokenId> Encode(std::span<const TextPart> parts, bool add_special) const;

  // The bytes that a token stands for; not always whole characters. Empty for ids outside of the vocabulary.
  std::string_view PieceBytes(TokenId id) const;
  // What a Detokenizer gives for these ids. Ids outside of the vocabulary count for nothing.
  std::string Decode(std::span<const TokenId> ids, bool skip_special) const;

  // The id of a token as the model's files write it: "<|im_end|>", "Ġthe".
  std::optional<TokenId> Find(std::string_view piece) const;
  bool IsSpecial(TokenId id) const { return InVocabulary(id) && special_[static_cast<std::size_t>(id)]; }
  bool has_byte_pieces() const { return !byte_piece_.empty(); }
  // SentencePiece's <0x41>: a byte of a character that no piece covers.
  bool IsBytePiece(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < byte_piece_.size() && byte_piece_[static_cast<std::size_t>(id)];
  }

  std::int32_t vocabulary_size() const { return static_cast<std::int32_t>(special_.size()); }
  TokenId bos() const { return bos_; }  // -1: none
  TokenId eos() const { return eos_; }
  bool adds_bos() const { return add_bos_; }
  bool adds_eos() const { return add_eos_; }
  // Decoding drops one space at the very beginning (SentencePiece puts it there).
  bool drops_first_space() const { return space_prefix_; }

 private:
  class Call;  // one Encode

  explicit Tokenizer(const formats::TokenizerData& data);

  bool InVocabulary(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < special_.size(); }
  std::string_view BytesOf(TokenId id) const {
    const std::size_t place = static_cast<std::size_t>(id);
    return std::string_view(bytes_).substr(offsets_[place], offsets_[place + 1] - offsets_[place]);
  }
  // The id of the piece of these bytes, added tokens apart; -1: none.
  TokenId FindBytes(std::string_view bytes) const {
    return index_.Find(bytes, [this](TokenId id) { return BytesOf(id); });
  }

  formats::TokenizerKind kind_;
  std::string bytes_;                    // of all pieces, one behind the other
  std::vector<std::size_t> offsets_;     // [vocabulary + 1]
  std::vector<bool> special_;            // [vocabulary]
  std::vector<bool> byte_piece_;         // [vocabulary], or empty
  formats::PieceIndex index_;            // by bytes; without added tokens and byte pieces
  std::vector<formats::AddedToken> added_;  // sorted by content
  std::array<TokenId, 256> byte_ids_;    // byte-level: the piece of one byte; SentencePiece: its byte piece
  Bpe bpe_;
  AddedTokens raw_added_;
  AddedTokens normalized_added_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;  // nullptr for SentencePiece
  bool ignore_merges_, space_prefix_;
  TokenId bos_, eos_, unknown_;
  bool add_bos_, add_eos_;
};

}  // namespace skein::text
