// SPDX-License-Identifier: Apache-2.0
//
// The keys tokenizer.ggml.* of a GGUF file. Source of their meaning: the GGUF specification of the ggml project.
#include "formats/tokenizer_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "formats/open_file.h"
#include "formats/piece_index.h"

namespace skein::formats {
namespace {

constexpr char kModelKey[] = "tokenizer.ggml.model";
constexpr char kPreKey[] = "tokenizer.ggml.pre";
constexpr char kTokensKey[] = "tokenizer.ggml.tokens";
constexpr char kTypesKey[] = "tokenizer.ggml.token_type";
constexpr char kScoresKey[] = "tokenizer.ggml.scores";
constexpr char kMergesKey[] = "tokenizer.ggml.merges";

enum TokenType : std::int64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

// What files call a pre-tokenizer and what our registry calls it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kPreTokenizers = {{
    {"deepseek-r1-qwen", "qwen2"},
    {"deepseek-v3", "deepseek-v3"},
    {"falcon", "falcon"},
    {"falcon3", "llama-bpe"},
    {"gpt-2", "gpt-2"},
    {"gpt2", "gpt-2"},
    {"llama-bpe", "llama-bpe"},
    {"llama-v3", "llama-bpe"},
    {"llama3", "llama-bpe"},
    {"phi-2", "gpt-2"},
    {"pixtral", "llama-bpe"},
    {"qwen2", "qwen2"},
    {"smollm", "smollm"},
}};

Result<std::string> PreTokenizer(const Gguf& gguf) {
  SKEIN_ASSIGN_OR_RETURN(const std::string name, gguf.Text(kPreKey, ""));
  for (const auto& [file_name, own_name] : kPreTokenizers) {
    if (file_name == name) return std::string(own_name);
  }
  std::string known;
  for (const auto& [file_name, own_name] : kPreTokenizers)
    known += (known.empty() ? "" : ", ") + std::string(file_name);
  return InvalidFile(fmt::format("{} is \"{}\"; known are {}", kPreKey, ShownPath(name), known), kPreKey);
}

// The value of a byte piece's name, <0x41>.
std::optional<int> ByteOfPiece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  int value = 0;
  for (const char letter : piece.substr(3, 2)) {
    const std::string_view digits = "0123456789ABCDEF0123456789abcdef";
    const std::size_t digit = digits.find(letter);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value * 16 + static_cast<int>(digit % 16);
  }
  return value;
}

// Reads one key of a token id: absent, -1 or 2^32 - 1 mean none.
Result<TokenId> IdOfKey(const Gguf& gguf, const std::string& key, std::size_t piece_count) {
  constexpr std::int64_t kNone = std::numeric_limits<std::uint32_t>::max();
  SKEIN_ASSIGN_OR_RETURN(const std::int64_t id, gguf.Integer(key, -1, kNone, -1));
  if (id == -1 || id == kNone) return TokenId{-1};
  if (id >= static_cast<std::int64_t>(piece_count)) {
    return InvalidFile(fmt::format("{} is {}, but there are {} tokens", key, id, piece_count), key);
  }
  return static_cast<TokenId>(id);
}

class Reader {
 public:
  explicit Reader(const Gguf& gguf) : gguf_(gguf) {}

  Result<TokenizerData> Read() {
    SKEIN_ASSIGN_OR_RETURN(const std::string model, gguf_.Text(kModelKey));
    if (model == "gpt2") {
      data_.kind = TokenizerKind::kByteLevelBpe;
    } else if (model == "llama") {
      data_.kind = TokenizerKind::kSentencePiece;
    } else {
      return InvalidFile(fmt::format("{} is \"{}\"; known are gpt2 and llama", kModelKey, ShownPath(model)), kModelKey);
    }
    SKEIN_RETURN_IF_ERROR(ReadPieces());
    SKEIN_RETURN_IF_ERROR(CheckScores());
    SKEIN_RETURN_IF_ERROR(ReadTypes());
    SKEIN_ASSIGN_OR_RETURN(const auto* merges, gguf_.Strings(kMergesKey));
    if (data_.kind == TokenizerKind::kByteLevelBpe) {
      SKEIN_RETURN_IF_ERROR(ReadMerges(merges));
      SKEIN_ASSIGN_OR_RETURN(data_.pre_tokenizer, PreTokenizer(gguf_));
      // No key says this; the pre-tokenizer's name stands for it.
      data_.ignore_merges = data_.pre_tokenizer == "llama-bpe";
    } else {
      MakeMerges();
    }
    SKEIN_RETURN_IF_ERROR(ReadSettings());
    return std::move(data_);
  }

 private:
  auto PieceOf() const {
    return [this](TokenId id) { return std::string_view(data_.pieces[static_cast<std::size_t>(id)]); };
  }

  Status ReadPieces() {
    SKEIN_ASSIGN_OR_RETURN(const auto* tokens, gguf_.Strings(kTokensKey));
    if (tokens == nullptr || tokens->empty())
      return InvalidFile(fmt::format("{} is missing or empty", kTokensKey), kTokensKey);
    if (tokens->size() >= static_cast<std::size_t>(std::numeric_limits<TokenId>::max()) / 4) {
      return InvalidFile(fmt::format("{} has {} tokens, too many", kTokensKey, tokens->size()), kTokensKey);
    }
    data_.pieces = *tokens;
    index_ = PieceIndex(data_.pieces.size());
    for (std::size_t id = 0; id < data_.pieces.size(); ++id) {
      index_.Insert(data_.pieces[id], static_cast<TokenId>(id), PieceOf());
    }
    return OkStatus();
  }

  Status CheckScores() {
    SKEIN_ASSIGN_OR_RETURN(scores_, gguf_.Reals(kScoresKey));
    if (scores_ == nullptr) {
      if (data_.kind == TokenizerKind::kSentencePiece)
        return InvalidFile(fmt::format("{} is missing", kScoresKey), kScoresKey);
      return OkStatus();
    }
    if (scores_->size() != data_.pieces.size()) {
      return InvalidFile(
          fmt::format("{} has {} entries for {} tokens", kScoresKey, scores_->size(), data_.pieces.size()), kScoresKey);
    }
    for (const float score : *scores_) {
      if (!std::isfinite(score))
        return InvalidFile(fmt::format("{} has an entry that is no finite number", kScoresKey), kScoresKey);
    }
    return OkStatus();
  }

  Status ReadTypes() {
    SKEIN_ASSIGN_OR_RETURN(types_, gguf_.Integers(kTypesKey));
    if (data_.kind == TokenizerKind::kSentencePiece) data_.byte_pieces.assign(256, -1);
    if (types_ == nullptr) return OkStatus();
    if (types_->size() != data_.pieces.size()) {
      return InvalidFile(fmt::format("{} has {} entries for {} tokens", kTypesKey, types_->size(), data_.pieces.size()),
                         kTypesKey);
    }
    for (std::size_t place = 0; place < types_->size(); ++place) {
      const std::int64_t type = (*types_)[place];
      const TokenId id = static_cast<TokenId>(place);
      const std::string& piece = data_.pieces[place];
      if (type < 0 || type > kByte) {
        return InvalidFile(fmt::format("{}: token {} has type {}, expected 0 to 6", kTypesKey, id, type), kTypesKey);
      }
      if ((type == kUnknown || type == kControl || type == kUserDefined) && !piece.empty()) {
        AddedToken token;
        token.id = id;
        token.content = piece;
        token.special = type != kUserDefined;
        data_.added.push_back(std::move(token));
      }
      if (type == kByte && data_.kind == TokenizerKind::kSentencePiece) {
        const std::optional<int> byte = ByteOfPiece(piece);
        if (!byte) {
          return InvalidFile(
              fmt::format("{}: token {} is a byte by its type, but reads \"{:.16}\" and not <0x00> to <0xFF>",
                          kTokensKey, id, piece),
              kTokensKey);
        }
        data_.byte_pieces[static_cast<std::size_t>(*byte)] = id;
      }
    }
    return OkStatus();
  }

  Status ReadMerges(const std::vector<std::string>* merges) {
    if (merges == nullptr) return InvalidFile(fmt::format("{} is missing", kMergesKey), kMergesKey);
    data_.merges.reserve(merges->size());
    std::string joined;
    for (std::size_t rank = 0; rank < merges->size(); ++rank) {
      const std::string_view line = (*merges)[rank];
      const auto wrong = [&](std::string_view what) {
        return InvalidFile(fmt::format("{}: merge {} \"{}\" {}", kMergesKey, rank, ShownPath(line), what), kMergesKey);
      };
      const std::size_t space = line.find(' ', 1);
      if (space == std::string_view::npos || space + 1 == line.size()) return wrong("is not two pieces");
      joined.assign(line.substr(0, space)).append(line.substr(space + 1));
      Merge merge;
      merge.left = index_.Find(line.substr(0, space), PieceOf());
      merge.right = index_.Find(line.substr(space + 1), PieceOf());
      merge.result = index_.Find(joined, PieceOf());
      merge.rank = static_cast<std::uint32_t>(rank);
      if (merge.left < 0 || merge.right < 0) return wrong("names a piece that is no token");
      if (merge.result < 0) return wrong("makes a piece that is no token");
      data_.merges.push_back(merge);
    }
    return OkStatus();
  }

  // SentencePiece has scores in place of merges: two neighbours may become any piece that they spell, the one of the
  // highest score first. So every way to cut a piece in two is a merge, with the rank of the piece's score.
  void MakeMerges() {
    std::vector<float> order;
    order.reserve(scores_->size());
    for (std::size_t id = 0; id < data_.pieces.size(); ++id) {
      if (IsMergeable(id)) order.push_back((*scores_)[id]);
    }
    std::sort(order.begin(), order.end(), std::greater<>());
    order.erase(std::unique(order.begin(), order.end()), order.end());
    for (std::size_t id = 0; id < data_.pieces.size(); ++id) {
      if (!IsMergeable(id)) continue;
      const std::string_view piece = data_.pieces[id];
      if (piece.size() > kMergeBytesMax) continue;
      const auto place = std::lower_bound(order.begin(), order.end(), (*scores_)[id], std::greater<>());
      for (std::size_t cut = 1; cut < piece.size(); ++cut) {
        if ((static_cast<unsigned char>(piece[cut]) & 0xC0) == 0x80) continue;
        const TokenId left = index_.Find(piece.substr(0, cut), PieceOf());
        const TokenId right = left < 0 ? -1 : index_.Find(piece.substr(cut), PieceOf());
        if (right < 0 || !IsMergeable(static_cast<std::size_t>(left)) || !IsMergeable(static_cast<std::size_t>(right)))
          continue;
        data_.merges.push_back(
            {left, right, static_cast<TokenId>(id), static_cast<std::uint32_t>(place - order.begin())});
      }
    }
  }

  bool IsMergeable(std::size_t id) const { return types_ == nullptr || (*types_)[id] == kNormal || (*types_)[id] == 0; }

  Status ReadSettings() {
    const std::size_t count = data_.pieces.size();
    const bool sentence_piece = data_.kind == TokenizerKind::kSentencePiece;
    SKEIN_ASSIGN_OR_RETURN(data_.bos, IdOfKey(gguf_, "tokenizer.ggml.bos_token_id", count));
    SKEIN_ASSIGN_OR_RETURN(data_.eos, IdOfKey(gguf_, "tokenizer.ggml.eos_token_id", count));
    SKEIN_ASSIGN_OR_RETURN(const TokenId unknown, IdOfKey(gguf_, "tokenizer.ggml.unknown_token_id", count));
    if (sentence_piece) data_.unknown = unknown;  // byte-level pieces cover every byte
    SKEIN_ASSIGN_OR_RETURN(data_.add_bos,
                           gguf_.Boolean("tokenizer.ggml.add_bos_token", sentence_piece || data_.ignore_merges));
    SKEIN_ASSIGN_OR_RETURN(data_.add_eos, gguf_.Boolean("tokenizer.ggml.add_eos_token", false));
    SKEIN_ASSIGN_OR_RETURN(const bool prefix, gguf_.Boolean("tokenizer.ggml.add_space_prefix", true));
    data_.space_prefix = sentence_piece && prefix;
    data_.add_bos = data_.add_bos && data_.bos >= 0;
    data_.add_eos = data_.add_eos && data_.eos >= 0;
    return OkStatus();
  }

  static constexpr std::size_t kMergeBytesMax = 512;  // longer pieces are never made; keeps a hostile file linear

  const Gguf& gguf_;
  TokenizerData data_;
  PieceIndex index_;
  const std::vector<float>* scores_ = nullptr;
  const std::vector<std::int64_t>* types_ = nullptr;
};

}  // namespace

Result<TokenizerData> ReadTokenizerGguf(const Gguf& gguf) { return Reader(gguf).Read(); }

}  // namespace skein::formats
