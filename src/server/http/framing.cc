// SPDX-License-Identifier: Apache-2.0
#include "server/http/framing.h"

#include <algorithm>
#include <string_view>

namespace skein::server {
namespace {

// Whether a comma-separated header, over all its lines, has this word.
bool Lists(const RequestHead& head, std::string_view name, std::string_view word) {
  for (const HttpHeader& header : head.headers) {
    if (header.name != name) continue;
    std::string_view rest = header.value;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      std::string_view item = rest.substr(0, comma);
      while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.remove_prefix(1);
      while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) item.remove_suffix(1);
      if (EqualsIgnoringCase(item, word)) return true;
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return false;
}

std::optional<Refusal> ReadLength(std::string_view text, std::uint64_t& length) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit)) {
    return Refusal{400, "Content-Length must be digits alone"};
  }
  // 18 digits are more bytes than any body, and fit.
  if (text.size() > 18) return Refusal{400, "Content-Length must have at most 18 digits"};
  length = 0;
  for (const char digit : text) length = length * 10 + static_cast<std::uint64_t>(digit - '0');
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> ReadFraming(const RequestHead& head, Framing& framing) {
  std::size_t lengths = 0, codings = 0, expectations = 0;
  const std::string* length = head.Find("content-length", &lengths);
  const std::string* coding = head.Find("transfer-encoding", &codings);
  const std::string* expect = head.Find("expect", &expectations);
  if (length != nullptr && coding != nullptr) {
    return Refusal{400, "Content-Length and Transfer-Encoding exclude each other"};
  }
  if (lengths > 1) return Refusal{400, "Content-Length must be given once"};
  if (codings > 1) return Refusal{400, "Transfer-Encoding must be given once"};
  if (length != nullptr) {
    if (const auto refusal = ReadLength(*length, framing.length)) return refusal;
    if (framing.length > 0) framing.body = Framing::Body::kLength;
  }
  if (coding != nullptr) {
    if (head.minor == 0) return Refusal{400, "HTTP/1.0 has no Transfer-Encoding"};
    if (!EqualsIgnoringCase(*coding, "chunked")) return Refusal{501, "Transfer-Encoding must be chunked, exactly"};
    framing.body = Framing::Body::kChunked;
  }
  if (expect != nullptr && head.minor > 0) {
    if (expectations > 1 || !EqualsIgnoringCase(*expect, "100-continue")) {
      return Refusal{417, "Expect must be 100-continue"};
    }
    framing.expects_continue = framing.body != Framing::Body::kNone;
  }
  framing.keep_alive = head.minor > 0 ? !Lists(head, "connection", "close")
                                      : Lists(head, "connection", "keep-alive") && !Lists(head, "connection", "close");
  return std::nullopt;
}

}  // namespace skein::server
