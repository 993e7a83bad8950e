// SPDX-License-Identifier: Apache-2.0
//
// The lexer of chat templates; see template_lexer.h. Words: a tag is what stands between {{ }}, {% %} or {# #}; its
// sign is the - or + next to a brace.
#include "text/template_lexer.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "text/template_text.h"
#include "text/template_unicode.h"

namespace skein::text::templates {
namespace {

constexpr std::array<std::string_view, 8> kLongOperators = {"//", "**", "==", "!=", ">=", "<=", "", ""};
constexpr std::string_view kShortOperators = "+-/*%~[](){}><=.:|,;";

bool IsAsciiDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsAsciiDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Newlines become \n, and one at the very end goes.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// The value of a string literal's inside, as Python's unicode-escape reads it.
class StringUnescaper {
 public:
  explicit StringUnescaper(std::string_view raw) : raw_(raw) {}

  std::optional<std::string> Run() {
    while (at_ < raw_.size()) {
      if (raw_[at_] != '\\') {
        out_.push_back(raw_[at_++]);
      } else {
        ++at_;
        if (at_ >= raw_.size() || !Escape()) return std::nullopt;
      }
    }
    return std::move(out_);
  }

 private:
  bool Escape() {
    const char c = raw_[at_];
    if (static_cast<unsigned char>(c) >= 0x80) return EscapedNonAscii();
    ++at_;
    switch (c) {
      case '\n': return true;
      case 'x': return Hex(2);
      case 'u': return Hex(4);
      case 'U': return Hex(8);
      case 'N': return false;  // character names are not known here
      default: break;
    }
    if (c >= '0' && c <= '7') return Octal(c);
    constexpr std::string_view kFrom = "\\'\"abfnrtv";
    constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
    if (const std::size_t place = kFrom.find(c); place != std::string_view::npos) {
      out_.push_back(kTo[place]);
    } else {
      out_.push_back('\\');
      out_.push_back(c);
    }
    return true;
  }

  // Python first writes the character as an escape, whose backslash the one before it then swallows.
  bool EscapedNonAscii() {
    std::size_t length = 0;
    const auto c = static_cast<std::uint32_t>(CharAt(raw_, at_, &length));
    at_ += length;
    out_ += c < 0x100 ? fmt::format("\\x{:02x}", c) : c < 0x10000 ? fmt::format("\\u{:04x}", c) : fmt::format("\\U{:08x}", c);
    return true;
  }

  bool Hex(std::size_t digits) {
    if (raw_.size() - at_ < digits) return false;
    char32_t c = 0;
    for (std::size_t i = 0; i < digits; ++i, ++at_) {
      const char d = raw_[at_];
      if (!IsHexDigit(d)) return false;
      c = c * 16 + static_cast<char32_t>(IsAsciiDigit(d) ? d - '0' : (d | 0x20) - 'a' + 10);
    }
    if (c > 0x10FFFF) return false;
    AppendUtf8(out_, c);
    return true;
  }

  bool Octal(char first) {
    char32_t c = static_cast<char32_t>(first - '0');
    for (int i = 0; i < 2 && at_ < raw_.size() && raw_[at_] >= '0' && raw_[at_] <= '7'; ++i) {
      c = c * 8 + static_cast<char32_t>(raw_[at_++] - '0');
    }
    AppendUtf8(out_, c);
    return true;
  }

  std::string_view raw_;
  std::size_t at_ = 0;
  std::string out_;
};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizeNewlines(source)), text_(source_) {}

  Result<std::vector<Token>> Run() {
    while (status_.ok() && at_ < text_.size()) Root();
    if (!status_.ok()) return status_;
    Emit(TokenKind::kEof, "");
    return std::move(tokens_);
  }

 private:
  // Data up to the next tag, then the tag.
  void Root() {
    std::size_t tag = at_;
    while (true) {
      tag = text_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= text_.size()) {
        tag = std::string_view::npos;
        break;
      }
      if (const char c = text_[tag + 1]; c == '{' || c == '%' || c == '#') break;
      ++tag;
    }
    if (tag == std::string_view::npos) {
      EmitData(text_.substr(at_));
      at_ = text_.size();
      return;
    }
    std::string_view data = text_.substr(at_, tag - at_);
    const char type = text_[tag + 1];
    std::size_t after = tag + 2;
    char sign = 0;
    if (after < text_.size() && (text_[after] == '-' || text_[after] == '+')) sign = text_[after++];
    EmitData(StripBefore(data, sign, /*variable=*/type == '{'));
    line_ += static_cast<int>(std::count(data.begin(), data.end(), '\n'));
    counted_ = tag;
    line_starting_ = false;
    at_ = after;
    if (type == '#') return Comment();
    if (type == '%' && TryRaw()) return;
    Emit(type == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    Tag(/*variable=*/type == '{');
  }

  std::string_view StripBefore(std::string_view data, char sign, bool variable) const {
    if (sign == '-') return StripRight(data);
    if (sign == '+' || variable) return data;
    const std::size_t newline = data.rfind('\n');
    const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if (line == 0 && !line_starting_) return data;
    return StripRight(data.substr(line)).empty() ? data.substr(0, line) : data;
  }

  static std::string_view StripRight(std::string_view data) {
    while (!data.empty()) {
      const std::size_t begin = PreviousChar(data, data.size());
      std::size_t length = 0;
      if (!IsSpace(CharAt(data, begin, &length))) break;
      data = data.substr(0, begin);
    }
    return data;
  }

  std::size_t SkipSpace(std::size_t at) const {
    while (at < text_.size()) {
      std::size_t length = 0;
      if (!IsSpace(CharAt(text_, at, &length))) break;
      at += length;
    }
    return at;
  }

  bool StartsAt(std::size_t at, std::string_view what) const { return text_.substr(at, what.size()) == what; }

  // The end of a tag's closing part that starts at `at` (`-%}` and the space after it, `%}` and one newline, …), or 0.
  std::size_t TagEnd(std::size_t at, std::string_view close, bool trims) const {
    if (StartsAt(at, close)) {
      const std::size_t end = at + close.size();
      return trims && end < text_.size() && text_[end] == '\n' ? end + 1 : end;
    }
    if (at >= text_.size() || !StartsAt(at + 1, close)) return 0;
    if (text_[at] == '-') return SkipSpace(at + 1 + close.size());
    if (text_[at] == '+' && trims) return at + 1 + close.size();
    return 0;
  }

  void FinishTag(std::size_t end) {
    line_starting_ = text_[end - 1] == '\n';
    at_ = end;
  }

  void Comment() {
    for (std::size_t at = at_;; ++at) {
      at = std::min(text_.find('#', at), text_.size());
      if (at == text_.size()) return Fail("Missing end of comment tag");
      if (!StartsAt(at, "#}")) continue;
      const bool signed_end = at > at_ && (text_[at - 1] == '-' || text_[at - 1] == '+');
      return FinishTag(TagEnd(signed_end ? at - 1 : at, "#}", /*trims=*/true));
    }
  }

  // After `{%` and its sign: a raw block, as far as its end, if it is one.
  bool TryRaw() {
    std::size_t at = SkipSpace(at_);
    if (!StartsAt(at, "raw")) return false;
    at = SkipSpace(at + 3);
    const std::size_t body = TagEnd(at, "%}", /*trims=*/false);
    if (body == 0) return false;
    for (std::size_t tag = body;; ++tag) {
      tag = std::min(text_.find("{%", tag), text_.size());
      if (tag == text_.size()) {
        Fail("Missing end of raw directive");
        return true;
      }
      std::size_t word = tag + 2;
      char sign = 0;
      if (word < text_.size() && (text_[word] == '-' || text_[word] == '+')) sign = text_[word++];
      word = SkipSpace(word);
      if (!StartsAt(word, "endraw")) continue;
      const std::size_t end = TagEnd(SkipSpace(word + 6), "%}", /*trims=*/true);
      if (end == 0) continue;
      line_starting_ = text_[body - 1] == '\n';
      EmitData(StripBefore(text_.substr(body, tag - body), sign, /*variable=*/false));
      FinishTag(end);
      return true;
    }
  }

  void Tag(bool variable) {
    std::string open;  // the brackets that are not closed yet
    while (status_.ok()) {
      if (open.empty()) {
        if (const std::size_t end = TagEnd(at_, variable ? "}}" : "%}", !variable); end != 0) {
          Emit(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
          return FinishTag(end);
        }
      }
      const std::size_t next = SkipSpace(at_);
      if (next != at_) {
        at_ = next;
        continue;
      }
      if (at_ >= text_.size()) return;  // the parser says what is missing
      if (!Number() && !Name() && !String() && !Operator(open)) {
        return Fail(fmt::format("unexpected character '{}'", text_.substr(at_, CharLength(text_, at_))));
      }
    }
  }

  // Digits with single underscores between; returns their end, or `at`.
  template <typename Test>
  std::size_t Digits(std::size_t at, Test test) const {
    while (at < text_.size()) {
      if (test(text_[at])) {
        ++at;
      } else if (text_[at] == '_' && at + 1 < text_.size() && test(text_[at + 1])) {
        at += 2;
      } else {
        break;
      }
    }
    return at;
  }

  std::size_t DecimalDigits(std::size_t at) const {
    return at < text_.size() && IsAsciiDigit(text_[at]) ? Digits(at, IsAsciiDigit) : at;
  }

  bool Number() {
    if (!IsAsciiDigit(text_[at_])) return false;
    if (const std::size_t end = FloatEnd(); end != 0) return EmitNumber(TokenKind::kFloat, end);
    const char second = at_ + 1 < text_.size() ? static_cast<char>(text_[at_ + 1] | 0x20) : '\0';
    std::size_t end = at_ + 1;
    if (text_[at_] == '0' && (second == 'x' || second == 'o' || second == 'b')) {
      const auto test = second == 'x' ? IsHexDigit : second == 'o' ? [](char c) { return c >= '0' && c <= '7'; }
                                                                   : [](char c) { return c == '0' || c == '1'; };
      end = Digits(at_ + 2, test);
      if (end == at_ + 2) end = at_ + 1;
    } else if (text_[at_] == '0') {
      end = Digits(at_, [](char c) { return c == '0'; });
    } else {
      end = DecimalDigits(at_);
    }
    return EmitNumber(TokenKind::kInteger, end);
  }

  // The end of a float that starts here, or 0. A digit after a dot is an attribute (`x.1`), never a float.
  std::size_t FloatEnd() const {
    if (at_ > 0 && text_[at_ - 1] == '.') return 0;
    const std::size_t whole = DecimalDigits(at_);
    std::size_t fraction = whole;
    if (whole < text_.size() && text_[whole] == '.') {
      fraction = DecimalDigits(whole + 1);
      if (fraction == whole + 1) fraction = whole;
    }
    if (fraction < text_.size() && (text_[fraction] | 0x20) == 'e') {
      std::size_t exponent = fraction + 1;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
      if (const std::size_t end = DecimalDigits(exponent); end != exponent) return end;
    }
    return fraction != whole ? fraction : 0;
  }

  bool EmitNumber(TokenKind kind, std::size_t end) {
    std::string digits(text_.substr(at_, end - at_));
    std::erase(digits, '_');
    Emit(kind, std::move(digits));
    at_ = end;
    return true;
  }

  bool Name() {
    std::size_t length = 0;
    if (!IsNameStart(CharAt(text_, at_, &length))) return false;
    std::size_t end = at_ + length;
    while (end < text_.size() && IsNameRest(CharAt(text_, end, &length))) end += length;
    Emit(TokenKind::kName, std::string(text_.substr(at_, end - at_)));
    at_ = end;
    return true;
  }

  bool String() {
    const char quote = text_[at_];
    if (quote != '\'' && quote != '"') return false;
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return false;
    std::optional<std::string> value = StringUnescaper(text_.substr(at_ + 1, end - at_ - 1)).Run();
    if (!value) {
      Fail("cannot read the escapes of a string");
      return true;
    }
    Emit(TokenKind::kString, std::move(*value));
    at_ = end + 1;
    return true;
  }

  bool Operator(std::string& open) {
    std::string_view op;
    for (std::string_view candidate : kLongOperators) {
      if (!candidate.empty() && StartsAt(at_, candidate)) op = candidate;
    }
    if (op.empty() && kShortOperators.find(text_[at_]) != std::string_view::npos) op = text_.substr(at_, 1);
    if (op.empty()) return false;
    const char c = op[0];
    if (c == '(' || c == '[' || c == '{') {
      open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) {
        Fail(open.empty() ? fmt::format("unexpected '{}'", c)
                          : fmt::format("unexpected '{}', expected '{}'", c, open.back()));
        return true;
      }
      open.pop_back();
    }
    Emit(TokenKind::kOperator, std::string(op));
    at_ += op.size();
    return true;
  }

  void CountLines() {
    if (counted_ >= at_) return;
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(counted_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n'));
    counted_ = at_;
  }

  void Emit(TokenKind kind, std::string text) {
    CountLines();
    tokens_.push_back({kind, line_, std::move(text)});
  }

  void EmitData(std::string_view data) {
    CountLines();
    if (!data.empty()) tokens_.push_back({TokenKind::kData, line_, std::string(data)});
  }

  void Fail(std::string message) {
    CountLines();
    if (status_.ok()) status_ = InvalidArgument(fmt::format("template line {}: {}", line_, message));
  }

  const std::string source_;
  const std::string_view text_;
  std::size_t at_ = 0;
  std::size_t counted_ = 0;  // newlines before here are in line_
  int line_ = 1;
  bool line_starting_ = true;  // what came before ended a line
  Status status_;
  std::vector<Token> tokens_;
};

}  // namespace

std::string DescribeToken(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData: return "template data / text";
    case TokenKind::kBlockBegin: return "begin of statement block";
    case TokenKind::kBlockEnd: return "end of statement block";
    case TokenKind::kVariableBegin: return "begin of print statement";
    case TokenKind::kVariableEnd: return "end of print statement";
    case TokenKind::kString: return "string";
    case TokenKind::kInteger: return "integer";
    case TokenKind::kFloat: return "float";
    case TokenKind::kEof: return "end of template";
    default: return token.text;
  }
}

Result<std::vector<Token>> TokenizeTemplate(std::string_view source) { return Lexer(source).Run(); }

}  // namespace skein::text::templates
