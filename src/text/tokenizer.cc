// SPDX-License-Identifier: Apache-2.0
//
// Encoding goes inwards: added tokens are cut out of the text, the rest is normalised, cut again at added tokens that
// want normalised text, cut into words, and each word is merged. Class Call holds what one Encode needs on the way.
#include "text/tokenizer.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "text/detokenizer.h"
#include "text/unicode.h"

namespace skein::text {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

// Byte-level pieces spell bytes in letters: printable Latin-1 for itself, the others from U+0100 on, in order.
// letters[code point] is the byte, or -1.
std::array<std::int16_t, 0x144> MakeByteOfLetter() {
  std::array<std::int16_t, 0x144> bytes{};
  bytes.fill(-1);
  std::size_t next = 0x100;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const bool plain = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    bytes[plain ? byte : next++] = static_cast<std::int16_t>(byte);
  }
  return bytes;
}

// The bytes that a byte-level piece spells, appended; false (and nothing appended) when a letter stands for no byte.
bool AppendSpelledBytes(std::string_view piece, std::string& out) {
  static const std::array<std::int16_t, 0x144> kByteOfLetter = MakeByteOfLetter();
  const std::size_t size_before = out.size();
  for (std::size_t place = 0; place < piece.size();) {
    const Decoded found = DecodeUtf8(piece, place);
    if (!found.valid || found.code_point >= kByteOfLetter.size() || kByteOfLetter[found.code_point] < 0) {
      out.resize(size_before);
      return false;
    }
    out.push_back(static_cast<char>(kByteOfLetter[found.code_point]));
    place += found.bytes;
  }
  return true;
}

void AppendWithSpaces(std::string_view piece, std::string& out) {
  for (std::size_t place = 0; place < piece.size();) {
    const std::size_t mark = std::min(piece.find(kSpaceMark, place), piece.size());
    out.append(piece.substr(place, mark - place));
    if (mark < piece.size()) out.push_back(' ');
    place = mark + kSpaceMark.size();
  }
}

std::vector<formats::AddedToken> Select(const formats::TokenizerData& data, bool normalized) {
  const Normalizer normalizer{data.nfc, data.lowercase};
  std::vector<formats::AddedToken> selected;
  for (formats::AddedToken token : data.added) {
    if (token.normalized != normalized) continue;
    if (data.kind == formats::TokenizerKind::kSentencePiece && !token.special) {
      std::string spaced;  // runs of spaces are tokens of their own in some vocabularies
      AppendWithSpaces(token.content, spaced);
      token.content = std::move(spaced);
    }
    if (normalized && normalizer.active()) token.content = normalizer.Apply(RepairUtf8(token.content));
    selected.push_back(std::move(token));
  }
  return selected;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::Create(const formats::TokenizerData& data) {
  if (data.kind == formats::TokenizerKind::kByteLevelBpe && FindPreTokenizer(data.pre_tokenizer) == nullptr) {
    return InvalidFile(fmt::format("the pre-tokenizer \"{:.64}\" is not known; known are {}", data.pre_tokenizer,
                                   fmt::join(PreTokenizerNames(), ", ")), "pre_tokenizer");
  }
  return std::unique_ptr<Tokenizer>(new Tokenizer(data));
}

Tokenizer::Tokenizer(const formats::TokenizerData& data)
    : kind_(data.kind),
      special_(data.pieces.size()),
      byte_piece_(data.byte_pieces.empty() ? 0 : data.pieces.size()),
      index_(data.pieces.size()),
      added_(data.added),
      bpe_(data.merges),
      raw_added_(Select(data, /*normalized=*/false)),
      normalized_added_(Select(data, /*normalized=*/true)),
      normalizer_{data.nfc, data.lowercase},
      pre_tokenizer_(FindPreTokenizer(data.pre_tokenizer)),
      ignore_merges_(data.ignore_merges),
      space_prefix_(data.space_prefix),
      bos_(data.bos),
      eos_(data.eos),
      unknown_(data.unknown),
      add_bos_(data.add_bos),
      add_eos_(data.add_eos) {
  std::vector<bool> apart(data.pieces.size());  // found by other means than the index
  for (const formats::AddedToken& token : data.added) {
    apart[static_cast<std::size_t>(token.id)] = true;
    if (token.special) special_[static_cast<std::size_t>(token.id)] = true;
  }
  // An added token that is searched in normalised text reads like that in decoded text, too.
  std::vector<const std::string*> normalized(data.pieces.size());
  for (const formats::AddedToken& token : normalized_added_.tokens()) normalized[static_cast<std::size_t>(token.id)] = &token.content;
  std::vector<std::int16_t> byte_of(data.byte_pieces.empty() ? 0 : data.pieces.size(), -1);
  byte_ids_.fill(-1);
  for (std::size_t byte = 0; byte < data.byte_pieces.size(); ++byte) {
    const TokenId id = data.byte_pieces[byte];
    byte_ids_[byte] = id;
    if (id < 0) continue;
    byte_of[static_cast<std::size_t>(id)] = static_cast<std::int16_t>(byte);
    byte_piece_[static_cast<std::size_t>(id)] = true;
    apart[static_cast<std::size_t>(id)] = true;
  }
  offsets_.reserve(data.pieces.size() + 1);
  offsets_.push_back(0);
  for (std::size_t id = 0; id < data.pieces.size(); ++id) {
    const std::string& piece = normalized[id] != nullptr ? *normalized[id] : data.pieces[id];
    bool spelled = true;
    if (kind_ == formats::TokenizerKind::kSentencePiece) {
      if (!byte_of.empty() && byte_of[id] >= 0) {
        bytes_.push_back(static_cast<char>(byte_of[id]));
      } else {
        AppendWithSpaces(piece, bytes_);
      }
    } else if (!AppendSpelledBytes(piece, bytes_)) {
      bytes_.append(piece);
      spelled = false;
    }
    offsets_.push_back(bytes_.size());
    if (spelled && !piece.empty() && !apart[id]) {
      index_.Insert(BytesOf(static_cast<TokenId>(id)), static_cast<TokenId>(id), [this](TokenId other) { return BytesOf(other); });
    }
  }
  if (kind_ == formats::TokenizerKind::kByteLevelBpe) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const char letter = static_cast<char>(byte);
      byte_ids_[byte] = FindBytes(std::string_view(&letter, 1));
    }
  }
  std::sort(added_.begin(), added_.end(), [](const auto& a, const auto& b) { return std::tie(a.content, a.id) < std::tie(b.content, b.id); });
}

class Tokenizer::Call {
 public:
  Call(const Tokenizer& tokenizer, std::size_t text_bytes)
      : tokenizer_(tokenizer), cache_(std::bit_ceil(std::clamp<std::size_t>(text_bytes / 4, 4, kCacheSlotsMax))) {
    ids_.reserve(std::min<std::size_t>(text_bytes / 3 + 8, std::size_t{1} << 20));
  }

  void Add(TokenId id) {
    ids_.push_back(id);
    after_token_ = true;
  }

  // `text` must be valid UTF-8 and stay where it is.
  void EncodeText(std::string_view text, const TrustMap& trust) {
    for (const Cut& cut : tokenizer_.raw_added_.Split(text, trust, 0)) {
      if (cut.id >= 0) {
        Add(cut.id);
        continue;
      }
      const std::string_view plain = text.substr(cut.begin, cut.end - cut.begin);
      if (tokenizer_.normalizer_.active()) {
        TrustMap normalized_trust;
        normalized_.push_back(tokenizer_.normalizer_.Apply(plain, trust, cut.begin, &normalized_trust));
        EncodeNormalized(normalized_.back(), normalized_trust, 0);
      } else {
        EncodeNormalized(plain, trust, cut.begin);
      }
    }
  }

  std::vector<TokenId> Finish() && { return std::move(ids_); }

 private:
  // Words that came before in this call: where their text is and where their ids are. One place per hash, the newest
  // word stays.
  struct Cached {
    const char* text = nullptr;
    std::uint32_t bytes = 0;
    std::uint32_t id_count = 0;
    std::size_t id_begin = 0;
  };
  static constexpr std::size_t kCacheSlotsMax = 1 << 13;
  static constexpr std::size_t kCachedBytesMax = 64;

  void EncodeNormalized(std::string_view text, const TrustMap& trust, std::size_t trust_offset) {
    if (tokenizer_.normalized_added_.empty()) return EncodePlain(text);
    for (const Cut& cut : tokenizer_.normalized_added_.Split(text, trust, trust_offset)) {
      if (cut.id >= 0) {
        Add(cut.id);
      } else {
        EncodePlain(text.substr(cut.begin, cut.end - cut.begin));
      }
    }
  }

  void EncodePlain(std::string_view text) {
    if (text.empty()) return;
    if (tokenizer_.kind_ == formats::TokenizerKind::kSentencePiece) return EncodeSentence(text);
    code_points_.Assign(text);
    ends_.clear();
    tokenizer_.pre_tokenizer_(code_points_, 0, code_points_.size(), ends_);
    std::size_t begin = 0;
    for (const std::uint32_t word : ends_) {
      const std::size_t end = code_points_.offsets[word];
      EncodeWord(text.substr(begin, end - begin));
      begin = end;
    }
    after_token_ = false;
  }

  void EncodeWord(std::string_view word) {
    if (word.size() > kCachedBytesMax) return MergeWord(word);
    Cached& cached = cache_[formats::HashBytes(word) & (cache_.size() - 1)];
    if (cached.text != nullptr && std::string_view(cached.text, cached.bytes) == word) {
      for (std::size_t place = 0; place < cached.id_count; ++place) ids_.push_back(ids_[cached.id_begin + place]);
      return;
    }
    const std::size_t id_begin = ids_.size();
    MergeWord(word);
    cached = {word.data(), static_cast<std::uint32_t>(word.size()), static_cast<std::uint32_t>(ids_.size() - id_begin), id_begin};
  }

  void MergeWord(std::string_view word) {
    if (tokenizer_.ignore_merges_) {
      if (const TokenId whole = tokenizer_.FindBytes(word); whole >= 0) {
        ids_.push_back(whole);
        return;
      }
    }
    symbols_.clear();
    for (const char letter : word) {
      const TokenId id = tokenizer_.byte_ids_[static_cast<unsigned char>(letter)];
      if (id >= 0) {
        symbols_.push_back(id);
      } else if (tokenizer_.unknown_ >= 0) {
        symbols_.push_back(tokenizer_.unknown_);
      }
    }
    tokenizer_.bpe_.Apply(symbols_, scratch_, ids_);
  }

  // SentencePiece knows no words: spaces are letters like any other, and a text may be one long word.
  void EncodeSentence(std::string_view text) {
    std::string spaced;
    if (tokenizer_.space_prefix_ && after_token_) spaced.push_back(' ');
    AppendWithSpaces(text, spaced);
    symbols_.clear();
    for (std::size_t place = 0; place < spaced.size();) {
      const std::uint32_t bytes = DecodeUtf8(spaced, place).bytes;
      const std::string_view letter = std::string_view(spaced).substr(place, bytes);
      place += bytes;
      if (const TokenId id = tokenizer_.FindBytes(letter); id >= 0) {
        symbols_.push_back(id);
        continue;
      }
      for (const char byte : letter) {
        const TokenId id = tokenizer_.byte_ids_[static_cast<unsigned char>(byte)];
        if (id >= 0 || tokenizer_.unknown_ >= 0) symbols_.push_back(id >= 0 ? id : tokenizer_.unknown_);
        if (id < 0) break;
      }
    }
    tokenizer_.bpe_.Apply(symbols_, scratch_, ids_);
    after_token_ = false;
  }

  const Tokenizer& tokenizer_;
  std::vector<TokenId> ids_;
  std::vector<Cached> cache_;
  std::deque<std::string> normalized_;  // the cache points into them
  CodePoints code_points_;
  std::vector<std::uint32_t> ends_;
  std::vector<TokenId> symbols_;
  Bpe::Scratch scratch_;
  bool after_token_ = true;  // at the beginning or behind an added token
};

std::vector<TokenId> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  const TextPart part{text, options.parse_special};
  return Encode(std::span(&part, 1), options.add_special);
}

std::vector<TokenId> Tokenizer::Encode(std::span<const TextPart> parts, bool add_special) const {
  std::string owned;
  std::string_view text;
  TrustMap trust;
  if (parts.size() == 1 && IsValidUtf8(parts[0].text)) {
    text = parts[0].text;
    trust.Append(text.size(), parts[0].trusted);
  } else {
    for (const TextPart& part : parts) {
      const std::size_t size_before = owned.size();
      if (IsValidUtf8(part.text)) {
        owned.append(part.text);
      } else {
        owned.append(RepairUtf8(part.text));
      }
      trust.Append(owned.size() - size_before, part.trusted);
    }
    text = owned;
  }
  Call call(*this, text.size());
  if (add_special && add_bos_ && bos_ >= 0) call.Add(bos_);
  call.EncodeText(text, trust);
  if (add_special && add_eos_ && eos_ >= 0) call.Add(eos_);
  return std::move(call).Finish();
}

std::string_view Tokenizer::PieceBytes(TokenId id) const { return InVocabulary(id) ? BytesOf(id) : std::string_view(); }

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special) const {
  Detokenizer detokenizer(*this, skip_special);
  std::string text;
  for (const TokenId id : ids) detokenizer.Push(id, text);
  return text + detokenizer.Finish();
}

std::optional<TokenId> Tokenizer::Find(std::string_view piece) const {
  const auto added = std::lower_bound(added_.begin(), added_.end(), piece,
                                      [](const formats::AddedToken& token, std::string_view wanted) { return token.content < wanted; });
  if (added != added_.end() && added->content == piece) return added->id;
  std::string bytes;
  if (kind_ == formats::TokenizerKind::kSentencePiece) {
    AppendWithSpaces(piece, bytes);
  } else if (!AppendSpelledBytes(piece, bytes)) {
    return std::nullopt;
  }
  const TokenId id = FindBytes(bytes);
  return id < 0 ? std::nullopt : std::optional(id);
}

}  // namespace skein::text
