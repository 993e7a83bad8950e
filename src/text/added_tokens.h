// SPDX-License-Identifier: Apache-2.0
//
// AddedTokens finds the tokens that are matched in the text itself, before any word is cut: special ones such as
// <|im_end|>, and added ones that are not special. The leftmost match wins, of those the longest.
//
// A special token is taken only where every byte of it is trusted: text of a template is, text of a user is not.
// Immutable once built; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "formats/tokenizer_data.h"

namespace skein::text {

// Which bytes of a text are trusted, as stretches in order.
class TrustMap {
 public:
  // The text goes on for `bytes` more, trusted or not.
  void Append(std::size_t bytes, bool trusted);
  bool Covers(std::size_t begin, std::size_t end) const;
  // The end of the stretch that `place` lies in.
  std::size_t StretchEnd(std::size_t place) const;

 private:
  struct Stretch {
    std::size_t end = 0;
    bool trusted = false;
  };
  std::size_t IndexOf(std::size_t place) const;

  std::vector<Stretch> stretches_;
};

// A part of a text: an added token, or plain text when id is -1.
struct Cut {
  TokenId id = -1;
  std::size_t begin = 0;
  std::size_t end = 0;
};

class AddedTokens {
 public:
  // Empty contents are left out.
  explicit AddedTokens(std::vector<formats::AddedToken> tokens);

  const std::vector<formats::AddedToken>& tokens() const { return tokens_; }
  bool empty() const { return tokens_.empty(); }

  // `text` as plain parts and added tokens, in order. `trust` speaks of text's bytes moved by `trust_offset`.
  std::vector<Cut> Split(std::string_view text, const TrustMap& trust, std::size_t trust_offset) const;

 private:
  struct Node {
    std::uint32_t child = 0;    // 0: none, since the root is nobody's child
    std::uint32_t sibling = 0;
    std::int32_t token = -1;    // index of the token that ends here
    unsigned char byte = 0;
  };
  struct Match {
    std::int32_t token = -1;
    std::size_t end = 0;
  };

  Match LongestAt(std::string_view text, std::size_t place) const;
  std::uint32_t Child(std::uint32_t node, unsigned char byte) const;

  std::vector<formats::AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<std::uint32_t, 256> first_{};  // the root's children by byte
};

}  // namespace skein::text
