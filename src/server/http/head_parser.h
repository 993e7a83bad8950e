// SPDX-License-Identifier: Apache-2.0
//
// HeadParser reads a request's head, from the first byte to the empty line, as it arrives. It is stricter than the RFC
// asks of servers: whatever two servers in a row could read differently is refused, at the first byte that shows it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/field_line.h"
#include "server/http/http_options.h"
#include "server/http/http_request.h"
#include "server/http/refusal.h"

namespace skein::server {

struct RequestHead {
  std::string method;
  std::string target;  // as sent
  int minor = 1;       // HTTP/1.minor
  std::vector<HttpHeader> headers;

  // The only header of this lower-case name; nullptr when there is none. `count`, if given, becomes how many there are.
  const std::string* Find(std::string_view name, std::size_t* count = nullptr) const;
};

class HeadParser {
 public:
  // `limits` outlives the parser.
  explicit HeadParser(const HttpLimits& limits) : limits_(limits) {}

  // Takes bytes while the head is not complete; returns how many it took.
  std::size_t Feed(std::string_view bytes);

  ParseState state() const { return state_; }
  const Refusal& refusal() const { return refusal_; }  // Requires: state() == kRefused
  RequestHead TakeHead() { return std::move(head_); }  // Requires: state() == kDone

 private:
  void TakeByte(char byte);
  void TakeLine(const std::string& line);
  void TakeRequestLine(std::string_view line);
  void TakeField(std::string_view line);
  void Refuse(Refusal refusal);

  const HttpLimits& limits_;
  ParseState state_ = ParseState::kMore;
  Refusal refusal_;
  LineReader reader_;
  std::size_t taken_ = 0;
  bool has_request_line_ = false;
  bool skipped_empty_line_ = false;
  RequestHead head_;
};

}  // namespace skein::server
