// SPDX-License-Identifier: Apache-2.0
//
// The lines of a request's head and trailers, byte by byte: LineReader cuts CRLF lines and lets no other control
// character through, ReadFieldLine takes `name: value` apart.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/http_request.h"
#include "server/http/refusal.h"

namespace skein::server {

bool IsTokenCharacter(char character);                            // of a method or a header's name (RFC 9110, 5.6.2)
bool IsToken(std::string_view text);                              // one or more of them
bool EqualsIgnoringCase(std::string_view a, std::string_view b);  // ASCII letters
std::string LowerCase(std::string_view text);                     // ASCII letters

// Collects one line at a time. A CR without LF, an LF without CR and every control character but the tab are refused
// as they arrive, so that nobody has to wait for an end of line that another server would see elsewhere.
class LineReader {
 public:
  enum class Step { kMore, kLine, kRefused };

  Step Take(char byte);
  const std::string& line() const { return line_; }  // without its CRLF; after kLine
  void Clear() { line_.clear(); }
  const Refusal& refusal() const { return refusal_; }

 private:
  Step Refuse(const char* message);

  std::string line_;
  bool after_cr_ = false;
  Refusal refusal_;
};

// Takes a header line apart: name in lower case, value without the blanks around it.
std::optional<Refusal> ReadFieldLine(std::string_view line, HttpHeader& header);

}  // namespace skein::server
