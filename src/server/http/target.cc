// SPDX-License-Identifier: Apache-2.0
#include "server/http/target.h"

#include <algorithm>
#include <string_view>

namespace skein::server {
namespace {

constexpr Refusal kBadTarget{400, "the request's target must be a path such as /v1/models"};

bool IsUriCharacter(char c) {
  return c > 0x20 && c < 0x7f && std::string_view("\"#<>\\^`{|}").find(c) == std::string_view::npos;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool Decode(std::string_view text, std::string& out) {
  out.clear();
  for (std::size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '%') {
      if (text.size() - at < 3) return false;
      const int high = HexDigit(text[at + 1]), low = HexDigit(text[at + 2]);
      if (high < 0 || low < 0) return false;
      const int value = high * 16 + low;
      if (value < 0x20 || value == 0x7f) return false;
      c = static_cast<char>(value);
      at += 2;
    }
    out.push_back(c);
  }
  return true;
}

// The part after `http://host` of an absolute target; empty when the target is not that or names another host.
std::string_view AfterAuthority(const RequestHead& head) {
  std::string_view rest = head.target;
  const std::size_t scheme = rest.find("://");
  if (scheme == std::string_view::npos) return {};
  const std::string_view name = rest.substr(0, scheme);
  if (!EqualsIgnoringCase(name, "http") && !EqualsIgnoringCase(name, "https")) return {};
  rest.remove_prefix(scheme + 3);
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
  const std::string* host = head.Find("host");
  if (host == nullptr || !EqualsIgnoringCase(authority, *host)) return {};
  rest.remove_prefix(authority.size());
  return rest.empty() || rest.front() == '?' ? std::string_view() : rest;
}

}  // namespace

std::optional<Refusal> ReadTarget(const RequestHead& head, std::string& path, std::string& query) {
  std::string_view target = head.target;
  if (!std::all_of(target.begin(), target.end(), IsUriCharacter)) return kBadTarget;
  if (target == "*" && head.method == "OPTIONS") {
    path = "*";
    return std::nullopt;
  }
  if (target.front() != '/') target = AfterAuthority(head);
  if (target.empty()) return kBadTarget;
  const std::size_t question = std::min(target.find('?'), target.size());
  if (!Decode(target.substr(0, question), path)) return kBadTarget;
  std::string decoded;  // only to see whether it can be
  query = target.substr(std::min(question + 1, target.size()));
  if (!Decode(query, decoded)) return kBadTarget;
  return std::nullopt;
}

}  // namespace skein::server
