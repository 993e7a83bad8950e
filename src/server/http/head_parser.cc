// SPDX-License-Identifier: Apache-2.0
#include "server/http/head_parser.h"

#include <utility>

namespace skein::server {
namespace {

constexpr Refusal kTargetTooLong{414, "the request's target is too long"};
constexpr Refusal kHeadTooLong{431, "the request's headers are too many or too long"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

const std::string* RequestHead::Find(std::string_view name, std::size_t* count) const {
  const std::string* found = nullptr;
  std::size_t number = 0;
  for (const HttpHeader& header : headers) {
    if (header.name != name) continue;
    if (found == nullptr) found = &header.value;
    ++number;
  }
  if (count != nullptr) *count = number;
  return found;
}

std::size_t HeadParser::Feed(std::string_view bytes) {
  std::size_t taken = 0;
  while (taken < bytes.size() && state_ == ParseState::kMore) TakeByte(bytes[taken++]);
  return taken;
}

void HeadParser::TakeByte(char byte) {
  if (++taken_ > limits_.header_bytes) return Refuse(has_request_line_ ? kHeadTooLong : kTargetTooLong);
  switch (reader_.Take(byte)) {
    case LineReader::Step::kMore:
      // The method and the version beside the target are short; 64 bytes are room for both.
      if (!has_request_line_ && reader_.line().size() > limits_.target_bytes + 64) Refuse(kTargetTooLong);
      return;
    case LineReader::Step::kRefused: return Refuse(reader_.refusal());
    case LineReader::Step::kLine:
      TakeLine(reader_.line());
      reader_.Clear();
      return;
  }
}

void HeadParser::TakeLine(const std::string& line) {
  if (has_request_line_) {
    if (line.empty()) {
      state_ = ParseState::kDone;
    } else {
      TakeField(line);
    }
  } else if (line.empty() && !skipped_empty_line_) {
    skipped_empty_line_ = true;  // some clients send one after a body (RFC 9112, 2.2)
  } else {
    TakeRequestLine(line);
  }
}

void HeadParser::TakeRequestLine(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos) return Refuse({400, "expected `METHOD target HTTP/1.1`"});
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, second - first - 1);
  const std::string_view version = line.substr(second + 1);
  if (!IsToken(method) || target.empty()) return Refuse({400, "expected `METHOD target HTTP/1.1`"});
  if (version.size() != 8 || version.substr(0, 5) != "HTTP/" || !IsDigit(version[5]) || version[6] != '.' ||
      !IsDigit(version[7])) {
    return Refuse({400, "expected `METHOD target HTTP/1.1`"});
  }
  if (version[5] != '1' || version[7] > '1') return Refuse({505, "this server speaks HTTP/1.1 and HTTP/1.0"});
  if (target.size() > limits_.target_bytes) return Refuse(kTargetTooLong);
  has_request_line_ = true;
  head_.method = method;
  head_.target = target;
  head_.minor = version[7] - '0';
}

void HeadParser::TakeField(std::string_view line) {
  if (head_.headers.size() >= limits_.header_count) return Refuse(kHeadTooLong);
  HttpHeader header;
  if (const auto refusal = ReadFieldLine(line, header)) return Refuse(*refusal);
  head_.headers.push_back(std::move(header));
}

void HeadParser::Refuse(Refusal refusal) {
  state_ = ParseState::kRefused;
  refusal_ = refusal;
}

}  // namespace skein::server
