// SPDX-License-Identifier: Apache-2.0
//
// str, repr and HTML escapes of values; see template_print.h.
#include "text/template_print.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "text/template_builtin.h"
#include "text/template_operators.h"
#include "text/template_unicode.h"

namespace skein::text::templates {
namespace {

constexpr bool kPunctuation = kUntrusted;  // of printed containers: nothing of it may complete a special token

// What stands between the quotes for one character, or nothing when it stands for itself.
std::string ReprEscape(char32_t c, char quote) {
  if (c == static_cast<char32_t>(quote) || c == '\\') return std::string("\\") + static_cast<char>(c);
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (IsPrintable(c)) return "";
  const auto code = static_cast<std::uint32_t>(c);
  return code < 0x100 ? fmt::format("\\x{:02x}", code)
                      : code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
}

class Printer {
 public:
  explicit Printer(Run& run) : run_(run), builder_(run.meter()) {}

  Text Take() { return builder_.Take(); }

  void Print(const Value& value) {
    DepthGuard guard(run_.meter());
    if (!guard.ok() || !run_.meter().Step()) return;
    switch (value.kind()) {
      case Kind::kUndefined: return Word("Undefined");
      case Kind::kNone: return Word("None", value);
      case Kind::kBool: return Word(value.boolean() ? "True" : "False", value);
      case Kind::kInt: return Word(fmt::format_int(value.integer()).c_str(), value);
      case Kind::kBigInt: return Word(BigText(value.big()), value);
      case Kind::kFloat: return Word(FloatText(value.real()), value);
      case Kind::kString:
        if (value.markup()) Word("Markup(");
        AppendQuoted(builder_, value.text());
        if (value.markup()) Word(")");
        return;
      case Kind::kBytes: return PrintBytes(value.text());
      case Kind::kList: return PrintItems("[", value.items(), "]");
      case Kind::kTuple: return PrintItems("(", value.items(), value.items().size() == 1 ? ",)" : ")");
      case Kind::kDict: return PrintDict(value.dict());
      case Kind::kDictKeys: return PrintView("dict_keys", value);
      case Kind::kDictValues: return PrintView("dict_values", value);
      case Kind::kDictItems: return PrintView("dict_items", value);
      case Kind::kRange: return PrintRange(value.as<RangeObject>());
      case Kind::kNamespace:
        Word("<Namespace ");
        PrintDict(value.dict());
        return Word(">");
      case Kind::kMacro: return PrintMacro(value.as<MacroObject>());
      case Kind::kLoop: return PrintLoop(value.as<LoopObject>());
      case Kind::kFunction: return Word(fmt::format("<function {}>", value.as<FunctionObject>().builtin->name));
      default: return Word(fmt::format("<{}>", KindName(value)));
    }
  }

 private:
  void Word(std::string_view word) { builder_.Append(word, kPunctuation); }
  void Word(std::string_view word, const Value& of) { builder_.Append(word, !of.from_outside()); }

  void PrintItems(std::string_view open, const std::vector<Value>& items, std::string_view close) {
    Word(open);
    for (std::size_t i = 0; i < items.size() && !run_.failed(); ++i) {
      if (i != 0) Word(", ");
      Print(items[i]);
    }
    Word(close);
  }

  void PrintDict(const DictObject& dict) {
    Word("{");
    bool first = true;
    for (const DictObject::Entry& entry : dict.entries()) {
      if (run_.failed()) return;
      if (!first) Word(", ");
      first = false;
      Print(entry.key);
      Word(": ");
      Print(entry.value);
    }
    Word("}");
  }

  void PrintView(std::string_view name, const Value& view) {
    Word(name);
    Word("(");
    PrintItems("[", Collect(run_, view), "]");
    Word(")");
  }

  void PrintRange(const RangeObject& range) {
    Word(range.step == 1 ? fmt::format("range({}, {})", range.start, range.stop)
                         : fmt::format("range({}, {}, {})", range.start, range.stop, range.step));
  }

  void PrintMacro(const MacroObject& macro) {
    Word(macro.name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", macro.name));
  }

  void PrintLoop(LoopObject& loop) { Word(fmt::format("<LoopContext {}/{}>", loop.index0 + 1, loop.Length())); }

  void PrintBytes(const Text& bytes) {
    const bool double_quotes = bytes.view().find('\'') != std::string_view::npos &&
                               bytes.view().find('"') == std::string_view::npos;
    const char quote = double_quotes ? '"' : '\'';
    std::string out = "b";
    out.push_back(quote);
    for (char c : bytes.bytes()) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x80) {
        const std::string escape = ReprEscape(byte, quote);
        out += escape.empty() ? std::string(1, c) : escape;
      } else {
        out += fmt::format("\\x{:02x}", byte);
      }
    }
    out.push_back(quote);
    builder_.Append(out, bytes.AllTrusted());
  }

  Run& run_;
  TextBuilder builder_;
};

}  // namespace

void AppendQuoted(TextBuilder& builder, const Text& text) {
  const bool double_quotes =
      text.view().find('\'') != std::string_view::npos && text.view().find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  builder.Append(std::string_view(&quote, 1), kPunctuation);
  std::size_t plain = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    const char32_t c = CharAt(text.view(), at, &length);
    const std::string escape = ReprEscape(c, quote);
    if (!escape.empty()) {
      builder.Append(text, plain, at);
      builder.Append(escape, text.TrustedAt(at));
      plain = at + length;
    }
    at += length;
  }
  builder.Append(text, plain, text.size());
  builder.Append(std::string_view(&quote, 1), kPunctuation);
}

Text Repr(Run& run, const Value& value) {
  Printer printer(run);
  printer.Print(value);
  return printer.Take();
}

Text ToText(Run& run, const Value& value) {
  if (value.IsString()) return value.text();
  if (value.is(Kind::kUndefined)) return Text();
  if (value.is(Kind::kJoiner) || value.is(Kind::kCycler)) return Text(fmt::format("<{}>", KindName(value)), kUntrusted);
  return Repr(run, value);
}

std::string BigText(const BigInt& value) { return value.ToString(); }

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // The shortest digits that read back as the same number, as d.ddde±xx.
  char buffer[64];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  std::string out;
  if (text.front() == '-') {
    out = "-";
    text.remove_prefix(1);
  }
  const std::size_t e = text.find('e');
  int exponent = 0;
  const std::size_t digits_from = text[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(text.data() + digits_from, text.data() + text.size(), exponent);
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

void AppendEscapedHtml(TextBuilder& builder, const Text& text) {
  std::size_t plain = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string_view escape;
    switch (text.bytes()[at]) {
      case '&': escape = "&amp;"; break;
      case '<': escape = "&lt;"; break;
      case '>': escape = "&gt;"; break;
      case '\'': escape = "&#39;"; break;
      case '"': escape = "&#34;"; break;
      default: continue;
    }
    builder.Append(text, plain, at);
    builder.Append(escape, text.TrustedAt(at));
    plain = at + 1;
  }
  builder.Append(text, plain, text.size());
}

Value EscapeHtml(Run& run, const Value& value) {
  if (value.IsString() && value.markup()) return value;
  TextBuilder builder(run.meter());
  AppendEscapedHtml(builder, ToText(run, value));
  return run.String(builder.Take(), /*markup=*/true);
}

}  // namespace skein::text::templates
