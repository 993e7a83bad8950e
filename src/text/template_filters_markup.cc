// SPDX-License-Identifier: Apache-2.0
//
// Filters about HTML, URLs and debugging: rare in chat templates.
#include <algorithm>

#include <fmt/format.h>

#include "text/template_filter_tables.h"
#include "text/template_operators.h"
#include "text/template_print.h"
#include "text/template_sort.h"
#include "text/template_strings.h"

namespace skein::text::templates {
namespace {

Value Escape(Run& run, const Value& self, Bound&) { return EscapeHtml(run, self); }

Value ForceEscape(Run& run, const Value& self, Bound&) {
  TextBuilder builder(run.meter());
  AppendEscapedHtml(builder, ToText(run, self));
  return run.String(builder.Take(), /*markup=*/true);
}

Value Safe(Run& run, const Value& self, Bound&) { return run.String(ToText(run, self), /*markup=*/true); }

// ---- striptags ----

// The character that an entity (without & and ;) stands for; 0 when it is not a known one.
char32_t EntityChar(std::string_view entity) {
  struct Row {
    std::string_view name;
    char32_t code;
  };
  constexpr Row kRows[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}, {"nbsp", 0xA0},
                           {"copy", 0xA9}, {"reg", 0xAE}, {"hellip", 0x2026}, {"mdash", 0x2014}, {"ndash", 0x2013},
                           {"lsquo", 0x2018}, {"rsquo", 0x2019}, {"ldquo", 0x201C}, {"rdquo", 0x201D}, {"euro", 0x20AC}};
  for (const Row& row : kRows) {
    if (row.name == entity) return row.code;
  }
  if (entity.size() < 2 || entity[0] != '#') return 0;
  const bool hex = entity[1] == 'x' || entity[1] == 'X';
  char32_t code = 0;
  const std::string_view digits = entity.substr(hex ? 2 : 1);
  if (digits.empty() || digits.size() > 7) return 0;
  for (char c : digits) {
    const char lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9') {
      code = code * (hex ? 16 : 10) + static_cast<char32_t>(c - '0');
    } else if (hex && lower >= 'a' && lower <= 'f') {
      code = code * 16 + static_cast<char32_t>(lower - 'a' + 10);
    } else {
      return 0;
    }
  }
  return code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ? 0xFFFD : code;
}

Text Unescape(Run& run, const Text& text) {
  TextBuilder builder(run.meter());
  const std::string_view s = text.view();
  std::size_t plain = 0;
  for (std::size_t at = s.find('&'); at != std::string_view::npos; at = s.find('&', at + 1)) {
    const std::size_t end = s.find(';', at);
    if (end == std::string_view::npos || !run.meter().Step()) break;
    const char32_t code = end - at > 12 ? 0 : EntityChar(s.substr(at + 1, end - at - 1));
    if (code == 0) continue;
    builder.Append(text, plain, at);
    std::string character;
    AppendUtf8(character, code);
    builder.Append(character, kUntrusted);  // it may spell what the escape kept apart
    plain = end + 1;
    at = end;
  }
  builder.Append(text, plain, s.size());
  return builder.Take();
}

// Everything between `open` and `close`, themselves included, goes.
Text WithoutTags(Run& run, const Text& text, std::string_view open, std::string_view close) {
  TextBuilder builder(run.meter());
  const std::string_view s = text.view();
  std::size_t at = 0;
  while (run.meter().Step()) {
    const std::size_t begin = s.find(open, at);
    const std::size_t end = begin == std::string_view::npos ? begin : s.find(close, begin);
    if (end == std::string_view::npos) break;
    builder.Append(text, at, begin);
    at = end + close.size();
  }
  builder.Append(text, at, s.size());
  return builder.Take();
}

Value StripTags(Run& run, const Value& self, Bound&) {
  Text text = WithoutTags(run, ToText(run, self), "<!--", "-->");
  text = WithoutTags(run, text, "<", ">");
  TextBuilder builder(run.meter());
  bool first = true;
  for (const Text& word : Split(run, text, std::nullopt, -1, false)) {
    if (!first) builder.Append(" ", kTrusted);
    first = false;
    builder.Append(word);
  }
  return run.String(Unescape(run, builder.Take()));
}

Value XmlAttr(Run& run, const Value& self, Bound& arguments) {
  if (FailIfUndefined(run, self)) return Value();
  if (!self.is(Kind::kDict)) return run.Fail("xmlattr wants a mapping");
  TextBuilder builder(run.meter());
  bool first = !TruthArgument(arguments, 0, true);
  for (const DictObject::Entry& entry : self.dict().entries()) {
    if (entry.value.is(Kind::kNone) || entry.value.is(Kind::kUndefined)) continue;
    const Text key = ToText(run, entry.key);
    if (key.view().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      return run.Fail("invalid character in attribute name");
    }
    if (!first) builder.Append(" ", kTrusted);
    first = false;
    builder.Append(EscapeHtml(run, run.String(key)).text());
    builder.Append("=\"", kTrusted);
    builder.Append(EscapeHtml(run, entry.value).text());
    builder.Append("\"", kTrusted);
  }
  return run.String(builder.Take(), run.autoescape());
}

// ---- urlencode ----

void AppendQuotedUrl(TextBuilder& builder, const Text& text, bool query) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text.bytes()[at]);
    const bool alnum = (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
    const bool plain = alnum || byte == '_' || byte == '.' || byte == '-' || byte == '~' || (byte == '/' && !query);
    if (plain) {
      builder.Append(text, at, at + 1);
    } else if (byte == ' ' && query) {
      builder.Append("+", text.TrustedAt(at));
    } else {
      builder.Append(fmt::format("%{:02X}", byte), text.TrustedAt(at));
    }
  }
}

Value UrlEncode(Run& run, const Value& self, Bound&) {
  TextBuilder builder(run.meter());
  if (self.IsString() || !IsIterable(self)) {
    const Text text = ToText(run, self);
    run.meter().Work(text.size() * 4);
    AppendQuotedUrl(builder, text, /*query=*/false);
    return run.String(builder.Take());
  }
  const Value pairs = self.is(Kind::kDict) ? Value::Of(Kind::kDictItems, Make<ViewObject>(run.meter(), Ref<DictObject>(&self.as<DictObject>()))) : self;
  bool first = true;
  for (const Value& pair : Collect(run, pairs)) {
    const std::vector<Value> parts = Collect(run, pair);
    if (run.failed()) return Value();
    if (parts.size() != 2) return run.Fail("urlencode wants pairs");
    if (!first) builder.Append("&", kTrusted);
    first = false;
    AppendQuotedUrl(builder, ToText(run, parts[0]), /*query=*/true);
    builder.Append("=", kTrusted);
    AppendQuotedUrl(builder, ToText(run, parts[1]), /*query=*/true);
  }
  return run.String(builder.Take());
}

// ---- pprint ----

// repr with the keys of dicts in order, over several lines where it is wide.
class PrettyPrinter {
 public:
  explicit PrettyPrinter(Run& run) : run_(run), builder_(run.meter()) {}

  Text Take() { return builder_.Take(); }

  void Print(const Value& value, std::uint64_t column, std::uint64_t closing) {
    DepthGuard guard(run_.meter());
    if (!guard.ok() || !run_.meter().Step()) return;
    const Value ordered = Ordered(value);
    const Text flat = Repr(run_, ordered);
    if (column + CountChars(flat.view()) + closing <= kWidth || (!value.IsList() && !value.is(Kind::kDict))) {
      return builder_.Append(flat);
    }
    const bool dict = value.is(Kind::kDict);
    const std::size_t count = dict ? ordered.dict().size() : ordered.items().size();
    builder_.Append(dict ? "{" : value.is(Kind::kList) ? "[" : "(", kUntrusted);
    for (std::size_t i = 0; i < count && !run_.failed(); ++i) {
      if (i != 0) {
        builder_.Append(",\n", kUntrusted);
        builder_.AppendRepeated(Text(" ", kUntrusted), column + 1);
      }
      const std::uint64_t after = i + 1 == count ? closing + 1 : 1;
      if (!dict) {
        Print(ordered.items()[i], column + 1, after);
        continue;
      }
      const DictObject::Entry& entry = ordered.dict().entries()[i];
      const Text key = Repr(run_, entry.key);
      builder_.Append(key);
      builder_.Append(": ", kUntrusted);
      Print(entry.value, column + 3 + CountChars(key.view()), after);
    }
    builder_.Append(dict ? "}" : value.is(Kind::kList) ? "]" : count == 1 ? ",)" : ")", kUntrusted);
  }

 private:
  static constexpr std::uint64_t kWidth = 80;

  Value Ordered(const Value& value) {
    DepthGuard guard(run_.meter());
    if (!guard.ok() || !run_.meter().Step()) return value;
    if (value.IsList()) {
      std::vector<Value> items;
      for (const Value& item : value.items()) items.push_back(Ordered(item));
      return Value::List(run_.meter(), std::move(items), value.kind());
    }
    if (!value.is(Kind::kDict)) return value;
    std::vector<DictObject::Entry> entries = value.dict().entries();
    StableSort(entries, [&](const auto& a, const auto& b) {
      const bool comparable = (a.key.IsString() && b.key.IsString()) || (a.key.IsNumber() && b.key.IsNumber());
      return comparable ? Less(run_, a.key, b.key) : KindName(a.key) < KindName(b.key);
    });
    Ref<DictObject> dict = Make<DictObject>(run_.meter());
    for (const DictObject::Entry& entry : entries) dict->Set(entry.key, Ordered(entry.value));
    return Value::Of(Kind::kDict, dict);
  }

  Run& run_;
  TextBuilder builder_;
};

Value PrettyPrint(Run& run, const Value& self, Bound&) {
  PrettyPrinter printer(run);
  printer.Print(self, 0, 0);
  return run.String(printer.Take());
}

constexpr Builtin kFilters[] = {
    {"e", Escape},
    {"escape", Escape},
    {"forceescape", ForceEscape},
    {"safe", Safe},
    {"striptags", StripTags},
    {"xmlattr", XmlAttr, "autospace"},
    {"urlencode", UrlEncode},
    {"pprint", PrettyPrint},
};

}  // namespace

std::span<const Builtin> MarkupFilters() { return kFilters; }

}  // namespace skein::text::templates
