// SPDX-License-Identifier: Apache-2.0
//
// A trie over the contents. A search costs at most the length of the longest token per byte of text, and close to
// nothing where a byte begins no token. The rules of the flags are those of the `tokenizers` library.
#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"

namespace skein::text {
namespace {

// The code point that ends at `end`, and where it begins. Requires: valid UTF-8, end > 0.
std::pair<char32_t, std::size_t> Before(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return {DecodeUtf8(text, begin).code_point, begin};
}

bool WordBefore(std::string_view text, std::size_t place) { return place > 0 && IsWordChar(Before(text, place).first); }
bool WordAfter(std::string_view text, std::size_t place) {
  return place < text.size() && IsWordChar(DecodeUtf8(text, place).code_point);
}

// Moves `begin` back over white space, not past `limit`.
std::size_t SpacesBefore(std::string_view text, std::size_t begin, std::size_t limit) {
  while (begin > limit) {
    const auto [code_point, start] = Before(text, begin);
    if (ClassOf(code_point) != CharClass::kSpace) break;
    begin = start;
  }
  return std::max(begin, limit);
}

std::size_t SpacesAfter(std::string_view text, std::size_t end) {
  while (end < text.size()) {
    const Decoded found = DecodeUtf8(text, end);
    if (ClassOf(found.code_point) != CharClass::kSpace) break;
    end += found.bytes;
  }
  return end;
}

}  // namespace

void TrustMap::Append(std::size_t bytes, bool trusted) {
  if (bytes == 0) return;
  if (stretches_.empty() || stretches_.back().trusted != trusted) {
    stretches_.push_back({stretches_.empty() ? 0 : stretches_.back().end, trusted});
  }
  stretches_.back().end += bytes;
}

std::size_t TrustMap::IndexOf(std::size_t place) const {
  const auto found = std::upper_bound(stretches_.begin(), stretches_.end(), place,
                                      [](std::size_t wanted, const Stretch& stretch) { return wanted < stretch.end; });
  return static_cast<std::size_t>(found - stretches_.begin());
}

bool TrustMap::Covers(std::size_t begin, std::size_t end) const {
  const std::size_t index = IndexOf(begin);
  return index < stretches_.size() && stretches_[index].trusted && stretches_[index].end >= end;
}

std::size_t TrustMap::StretchEnd(std::size_t place) const {
  const std::size_t index = IndexOf(place);
  return index < stretches_.size() ? stretches_[index].end : place;
}

AddedTokens::AddedTokens(std::vector<formats::AddedToken> tokens) : tokens_(std::move(tokens)), nodes_(1) {
  std::erase_if(tokens_, [](const formats::AddedToken& token) { return token.content.empty(); });
  for (std::size_t index = 0; index < tokens_.size(); ++index) {
    std::uint32_t node = 0;
    for (const char letter : tokens_[index].content) {
      const unsigned char byte = static_cast<unsigned char>(letter);
      std::uint32_t child = Child(node, byte);
      if (child == 0) {
        child = static_cast<std::uint32_t>(nodes_.size());
        nodes_.push_back({0, node == 0 ? 0 : nodes_[node].child, -1, byte});
        (node == 0 ? first_[byte] : nodes_[node].child) = child;
      }
      node = child;
    }
    if (nodes_[node].token < 0) nodes_[node].token = static_cast<std::int32_t>(index);
  }
}

std::uint32_t AddedTokens::Child(std::uint32_t node, unsigned char byte) const {
  if (node == 0) return first_[byte];
  std::uint32_t child = nodes_[node].child;
  while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].sibling;
  return child;
}

AddedTokens::Match AddedTokens::LongestAt(std::string_view text, std::size_t place) const {
  Match match;
  std::uint32_t node = first_[static_cast<unsigned char>(text[place])];
  for (std::size_t next = place + 1; node != 0; ++next) {
    if (nodes_[node].token >= 0) match = {nodes_[node].token, next};
    if (next == text.size()) break;
    node = Child(node, static_cast<unsigned char>(text[next]));
  }
  return match;
}

std::vector<Cut> AddedTokens::Split(std::string_view text, const TrustMap& trust, std::size_t trust_offset) const {
  std::vector<Cut> cuts;
  std::size_t plain = 0;  // where the plain text begins that no cut has yet
  std::size_t place = 0;
  while (place < text.size()) {
    if (first_[static_cast<unsigned char>(text[place])] == 0) {  // most bytes begin no token
      ++place;
      continue;
    }
    const Match match = LongestAt(text, place);
    if (match.token < 0) {
      ++place;
      continue;
    }
    const formats::AddedToken& token = tokens_[static_cast<std::size_t>(match.token)];
    std::size_t begin = place;
    std::size_t end = match.end;
    place = match.end;
    if (token.special && !trust.Covers(trust_offset + begin, trust_offset + end)) {
      // The text of a special token as plain text. Where trust changes within it, what follows is searched anew, so
      // that a user's text cannot hide the template's next token.
      const std::size_t stretch_end = trust.StretchEnd(trust_offset + begin) - trust_offset;
      place = std::min(end, std::max(stretch_end, begin + 1));
      continue;
    }
    if (token.single_word && (WordBefore(text, begin) || WordAfter(text, end))) continue;
    // Stripping stays within what no token has taken, except that a match may lie in the white space that the token
    // before it took; then that white space is this token's as well.
    if (token.left_strip) begin = std::max(SpacesBefore(text, begin, std::min(plain, begin)), plain);
    if (token.right_strip) end = SpacesAfter(text, end);
    if (plain < begin) cuts.push_back({-1, plain, begin});
    cuts.push_back({token.id, begin, end});
    plain = end;
  }
  if (plain < text.size()) cuts.push_back({-1, plain, text.size()});
  return cuts;
}

}  // namespace skein::text
