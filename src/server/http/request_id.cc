// SPDX-License-Identifier: Apache-2.0
#include "server/http/request_id.h"

#include <algorithm>
#include <array>

#include <openssl/rand.h>

namespace skein::server {
namespace {

bool IsLowerHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsAllZero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

}  // namespace

bool IsRequestId(std::string_view text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

std::string NewRequestId() {
  std::array<unsigned char, 16> bytes{};
  // Without randomness the id is zeros: a name that is not unique hurts a log, not a client.
  static_cast<void>(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())));
  std::string id;
  id.reserve(32);
  for (const unsigned char byte : bytes) {
    id.push_back("0123456789abcdef"[byte >> 4]);
    id.push_back("0123456789abcdef"[byte & 15]);
  }
  return id;
}

bool IsTraceparent(std::string_view text) {
  // 00-<32 hex of the trace>-<16 hex of the parent>-<2 hex of flags>
  if (text.size() != 55 || text.substr(0, 3) != "00-" || text[35] != '-' || text[52] != '-') return false;
  const std::string_view trace = text.substr(3, 32), parent = text.substr(36, 16), flags = text.substr(53);
  return IsLowerHex(trace) && !IsAllZero(trace) && IsLowerHex(parent) && !IsAllZero(parent) && IsLowerHex(flags);
}

}  // namespace skein::server
