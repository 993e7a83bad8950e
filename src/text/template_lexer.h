// SPDX-License-Identifier: Apache-2.0
//
// Splits the source of a chat template into tokens: text between the tags (with the whitespace rules trim_blocks,
// lstrip_blocks, `-` and `+` already applied) and what stands inside tags. Pure function, used by the parser.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace skein::text::templates {

enum class TokenKind : std::uint8_t {
  kData,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,    // text is the string's value
  kInteger,   // text without underscores, with its 0x, 0o or 0b
  kFloat,     // text without underscores
  kOperator,  // text is the operator
  kEof,
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;

  bool Is(TokenKind k) const { return kind == k; }
  bool IsName(std::string_view name) const { return kind == TokenKind::kName && text == name; }
  bool IsOperator(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
};

// How a token is called in a message.
std::string DescribeToken(const Token& token);

// The last token is kEof. Errors are kInvalidArgument with the line.
Result<std::vector<Token>> TokenizeTemplate(std::string_view source);

}  // namespace skein::text::templates
