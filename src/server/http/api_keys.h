// SPDX-License-Identifier: Apache-2.0
//
// ApiKeys are the keys that open the server. They are kept as digests; a comparison takes as long for a key that is
// nearly right as for any other, and looks at all of them.
//
// One key a line, blanks between words, `#` starts a comment:
//
//     KEY [TENANT [admin]]
//
// Requests of one tenant share its part of the prefix cache and its fair share. A key without a name is a tenant of
// its own.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace skein::server {

class ApiKeys {
 public:
  struct Key {
    std::array<unsigned char, 32> digest{};  // SHA-256
    std::string tenant;
    bool admin = false;
  };

  // Adds the keys of a text. Errors: kInvalidArgument for a key that is too short, or no key, or an unknown word;
  // the message names the line, never the key.
  Status Add(std::string_view text, std::string_view source);

  // Reads a file into `text`; `readable_by_others` tells whether other users of the machine could do the same.
  static Result<std::string> ReadFile(const std::string& path, bool& readable_by_others);

  // Without keys everybody may come in.
  bool empty() const { return keys_.empty(); }

  // Whose key this is; nullptr when it is nobody's.
  const Key* Find(std::string_view presented) const;

 private:
  std::vector<Key> keys_;
};

}  // namespace skein::server
