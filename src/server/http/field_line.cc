// SPDX-License-Identifier: Apache-2.0
#include "server/http/field_line.h"

#include <algorithm>

namespace skein::server {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

}  // namespace

bool IsTokenCharacter(char character) {
  if ((character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z')) return true;
  if (character >= '0' && character <= '9') return true;
  return character != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(character) != std::string_view::npos;
}

bool IsToken(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenCharacter); }

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return Lower(x) == Lower(y); });
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), Lower);
  return lower;
}

LineReader::Step LineReader::Take(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  if (after_cr_) {
    after_cr_ = false;
    return byte == '\n' ? Step::kLine : Refuse("a CR must be followed by an LF");
  }
  if (byte == '\r') {
    after_cr_ = true;
    return Step::kMore;
  }
  if (byte == '\n') return Refuse("lines end with CR LF, found an LF alone");
  if ((value < 0x20 && byte != '\t') || value == 0x7f) return Refuse("found a control character");
  line_.push_back(byte);
  return Step::kMore;
}

LineReader::Step LineReader::Refuse(const char* message) {
  refusal_ = {400, message};
  return Step::kRefused;
}

std::optional<Refusal> ReadFieldLine(std::string_view line, HttpHeader& header) {
  // Two readers of a folded line or of a blank before the colon may see two different headers.
  if (line.empty() || IsBlank(line.front())) return Refusal{400, "a header line must not begin with a blank"};
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return Refusal{400, "a header line needs a colon"};
  const std::string_view name = line.substr(0, colon);
  if (!IsToken(name)) return Refusal{400, "a header's name must be letters, digits or !#$%&'*+-.^_`|~ up to its colon"};
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && IsBlank(value.front())) value.remove_prefix(1);
  while (!value.empty() && IsBlank(value.back())) value.remove_suffix(1);
  header = {LowerCase(name), std::string(value)};
  return std::nullopt;
}

}  // namespace skein::server
