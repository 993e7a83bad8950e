// SPDX-License-Identifier: Apache-2.0
//
// Normalizer brings text into the form that a tokenizer was trained on: NFC, lower case, or both. It keeps track of
// which bytes are trusted. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "text/added_tokens.h"

namespace skein::text {

struct Normalizer {
  bool nfc = false;
  bool lowercase = false;

  bool active() const { return nfc || lowercase; }

  // The normal form of `text`, which must be valid UTF-8. `trust` speaks of text's bytes moved by `trust_offset`;
  // `result_trust`, when given, gets the same for the result: characters that melt together are trusted when all were.
  std::string Apply(std::string_view text, const TrustMap& trust, std::size_t trust_offset, TrustMap* result_trust) const;
  std::string Apply(std::string_view text) const;
};

}  // namespace skein::text
