// SPDX-License-Identifier: Apache-2.0
//
// '%…' % values and '{…}'.format(…); see template_format.h.
#include "text/template_format.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "text/template_format_spec.h"
#include "text/template_operators.h"
#include "text/template_print.h"

namespace skein::text::templates {
namespace {

Text Shortened(Run& run, const Text& text, std::optional<std::uint64_t> chars) {
  if (!chars) return text;
  std::size_t end = 0;
  for (std::uint64_t i = 0; i < *chars && end < text.size(); ++i) end += CharLength(text.view(), end);
  TextBuilder builder(run.meter());
  builder.Append(text, 0, end);
  return builder.Take();
}

// ---- pattern % values ----

class PercentFormatter {
 public:
  PercentFormatter(Run& run, const Value& pattern, const Value& values)
      : run_(run), pattern_(pattern.text()), markup_(pattern.markup()), values_(values), builder_(run.meter()) {}

  Value Format() {
    const std::string_view text = pattern_.view();
    while (at_ < text.size() && !run_.failed()) {
      const std::size_t percent = std::min(text.find('%', at_), text.size());
      builder_.Append(pattern_, at_, percent);
      at_ = percent;
      if (at_ < text.size()) Directive(text);
    }
    const bool mapping = values_.is(Kind::kDict) || values_.is(Kind::kList) || values_.is(Kind::kUndefined) ||
                         values_.is(Kind::kRange);
    const std::size_t count = values_.is(Kind::kTuple) ? values_.items().size() : 1;
    if (!mapping && used_ < count) run_.Fail("not all arguments converted during string formatting");
    return run_.String(builder_.Take(), markup_);
  }

 private:
  Value NextValue() {
    const std::size_t place = used_++;
    if (!values_.is(Kind::kTuple) && place == 0) return values_;
    if (values_.is(Kind::kTuple) && place < values_.items().size()) return values_.items()[place];
    return run_.Fail("not enough arguments for format string");
  }

  std::optional<std::uint64_t> Count(std::string_view text, FormatSpec* spec) {
    if (at_ >= text.size() || text[at_] != '*') return ReadCount(text, &at_);
    ++at_;
    const Value value = NextValue();
    if (!value.IsInteger()) run_.Fail("* wants int");
    if (run_.failed()) return std::nullopt;
    if (value.integer() < 0 && spec != nullptr) spec->align = '<';
    return static_cast<std::uint64_t>(std::abs(std::max<std::int64_t>(value.integer(), -(std::int64_t{1} << 60))));
  }

  void Directive(std::string_view text) {
    ++at_;
    std::optional<Value> named;
    if (at_ < text.size() && text[at_] == '(') {
      const std::size_t close = text.find(')', at_);
      if (close == std::string_view::npos) return void(run_.Fail("incomplete format key"));
      if (!values_.is(Kind::kDict)) return void(run_.Fail("format requires a mapping"));
      const Value* found = values_.dict().Find(text.substr(at_ + 1, close - at_ - 1));
      if (found == nullptr) return void(run_.Fail("a key of a format is missing"));
      named = *found;
      at_ = close + 1;
    }
    FormatSpec spec;
    bool zero = false;
    for (; at_ < text.size(); ++at_) {
      const char flag = text[at_];
      if (flag == '-') {
        spec.align = '<';
      } else if (flag == '+' || (flag == ' ' && spec.sign != '+')) {
        spec.sign = flag;
      } else if (flag == '#') {
        spec.alternate = true;
      } else if (flag == '0') {
        zero = true;
      } else if (flag != ' ') {
        break;
      }
    }
    spec.width = Count(text, &spec).value_or(0);
    if (at_ < text.size() && text[at_] == '.') {
      ++at_;
      spec.precision = Count(text, nullptr).value_or(0);
    }
    if (at_ < text.size() && (text[at_] == 'l' || text[at_] == 'h' || text[at_] == 'L')) ++at_;
    if (at_ >= text.size()) return void(run_.Fail("incomplete format"));
    spec.type = text[at_];
    const bool trusted = pattern_.TrustedAt(at_);
    ++at_;
    if (spec.type == '%') return builder_.Append("%", trusted);
    const Value value = named ? *named : NextValue();
    if (!run_.failed()) One(spec, zero, value);
  }

  void One(FormatSpec spec, bool zero, const Value& value) {
    switch (spec.type) {
      case 's': return String(spec, markup_ ? EscapeHtml(run_, value).text() : ToText(run_, value));
      case 'r':
      case 'a': return String(spec, Repr(run_, value));
      case 'c':
        if (value.IsString() && value.chars() == 1) return String(spec, value.text());
        break;
      case 'i':
      case 'u': spec.type = 'd'; break;
      case 'd': case 'o': case 'x': case 'X': case 'e': case 'E': case 'f': case 'F': case 'g': case 'G': break;
      default: return void(run_.Fail(fmt::format("unsupported format character '{}'", spec.type)));
    }
    if (!value.IsNumber()) {
      if (!FailIfUndefined(run_, value)) run_.Fail(fmt::format("%{} format: a number is required, not {}", spec.type, KindName(value)));
      return;
    }
    Number(spec, zero, value);
  }

  void String(const FormatSpec& spec, const Text& text) {
    AppendPadded(builder_, spec, Shortened(run_, text, spec.precision), '>');
  }

  void Number(FormatSpec spec, bool zero, Value value) {
    const bool whole = std::string_view("doxXc").find(spec.type) != std::string_view::npos;
    const bool outside = value.from_outside();
    if (whole && value.is(Kind::kFloat)) {
      if (spec.type != 'd') return void(run_.Fail(fmt::format("%{} format: an integer is required, not float", spec.type)));
      if (!std::isfinite(value.real())) return void(run_.Fail("cannot convert float to integer"));
      value = Value::Big(run_.meter(), BigInt::FromDouble(value.real()));
    }
    const std::optional<std::uint64_t> precision = spec.precision;
    if (whole) spec.precision.reset();
    bool negative = false;
    std::string digits = NumberDigits(run_, value, spec, &negative);
    if (whole && precision && *precision > digits.size()) {
      if (*precision > 100'000) return run_.meter().Limit("precision of a format is too large");
      digits.insert(0, *precision - digits.size(), '0');
    }
    if (zero && spec.align == 0 && spec.type != 'c') {
      spec.align = '=';
      spec.fill = Text("0", kTrusted);
    }
    AppendNumber(builder_, spec, digits, negative, !outside);
  }

  Run& run_;
  const Text& pattern_;
  const bool markup_;
  const Value& values_;
  TextBuilder builder_;
  std::size_t at_ = 0;
  std::size_t used_ = 0;
};

// ---- pattern.format(…) ----

class BraceFormatter {
 public:
  BraceFormatter(Run& run, const Arguments& arguments) : run_(run), arguments_(arguments) {}

  // `levels`: how often fields may still stand within a field's format.
  Text Format(const Text& pattern, int levels) {
    TextBuilder builder(run_.meter());
    const std::string_view text = pattern.view();
    std::size_t at = 0;
    while (at < text.size() && !run_.failed()) {
      const std::size_t brace = std::min(text.find_first_of("{}", at), text.size());
      builder.Append(pattern, at, brace);
      if (brace == text.size()) break;
      if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
        builder.Append(pattern, brace, brace + 1);
        at = brace + 2;
      } else if (text[brace] == '}') {
        run_.Fail("Single '}' encountered in format string");
      } else {
        at = Field(builder, pattern, brace + 1, levels);
      }
    }
    return builder.Take();
  }

 private:
  std::size_t Field(TextBuilder& builder, const Text& pattern, std::size_t begin, int levels) {
    const std::string_view text = pattern.view();
    int open = 1;
    std::size_t end = begin;
    for (; end < text.size(); ++end) {
      if (text[end] == '{') ++open;
      if (text[end] == '}' && --open == 0) break;
    }
    if (end >= text.size()) {
      run_.Fail("expected '}' before end of string");
      return end;
    }
    if (levels < 0) {
      run_.Fail("Max string recursion exceeded");
      return end;
    }
    // name[!conversion][:spec]; a colon or ! inside [ ] belongs to the name.
    std::size_t name_end = begin;
    for (bool brackets = false; name_end < end; ++name_end) {
      const char c = text[name_end];
      if (c == '[') brackets = true;
      if (c == ']') brackets = false;
      if (!brackets && (c == ':' || c == '!')) break;
    }
    Value value = Lookup(text.substr(begin, name_end - begin));
    std::size_t at = name_end;
    if (at < end && text[at] == '!') {
      const char conversion = at + 1 < end ? text[at + 1] : '\0';
      if (conversion == 'r' || conversion == 'a') {
        value = run_.String(Repr(run_, value));
      } else if (conversion == 's') {
        value = run_.String(ToText(run_, value));
      } else {
        run_.Fail("Unknown conversion specifier");
      }
      at += 2;
    }
    if (at < end && text[at] != ':') run_.Fail("expected ':' after conversion specifier");
    Text spec;
    if (at < end) {
      TextBuilder inner(run_.meter());
      inner.Append(pattern, at + 1, end);
      spec = inner.Take();
      if (spec.view().find_first_of("{}") != std::string_view::npos) spec = Format(spec, levels - 1);
    }
    if (!run_.failed()) One(builder, value, spec);
    return end + 1;
  }

  Value Lookup(std::string_view name) {
    const std::size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = First(name.substr(0, first_end));
    std::size_t at = first_end;
    while (at < name.size() && !run_.failed()) {
      if (name[at] == '.') {
        const std::size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) return run_.Fail("Empty attribute in format string");
        value = GetAttribute(run_, value, name.substr(at + 1, end - at - 1));
        at = end;
        continue;
      }
      const std::size_t close = name.find(']', at);
      if (name[at] != '[' || close == std::string_view::npos) return run_.Fail("Missing ']' in format string");
      const std::string_view key = name.substr(at + 1, close - at - 1);
      if (key.empty()) return run_.Fail("Empty attribute in format string");
      std::size_t read = 0;
      const std::optional<std::uint64_t> index = ReadCount(key, &read);
      value = GetItem(run_, value, index && read == key.size() ? Value::Int(static_cast<std::int64_t>(*index)) : run_.String(key));
      at = close + 1;
    }
    return value;
  }

  Value First(std::string_view name) {
    std::size_t read = 0;
    std::optional<std::uint64_t> index = ReadCount(name, &read);
    if (name.empty()) {
      if (numbering_ == Numbering::kGiven) return run_.Fail("cannot switch from manual field specification to automatic field numbering");
      numbering_ = Numbering::kAutomatic;
      index = next_++;
    } else if (index && read == name.size()) {
      if (numbering_ == Numbering::kAutomatic) return run_.Fail("cannot switch from automatic field numbering to manual field specification");
      numbering_ = Numbering::kGiven;
    } else {
      for (const auto& [key, value] : arguments_.named) {
        if (key == name) return value;
      }
      return run_.Fail(fmt::format("format has no argument '{}'", name));
    }
    if (*index < arguments_.positional.size()) return arguments_.positional[static_cast<std::size_t>(*index)];
    return run_.Fail("Replacement index out of range for positional args tuple");
  }

  // [[fill]align][sign][z][#][0][width][grouping][.precision][type]
  FormatSpec Parse(const Text& text) {
    FormatSpec spec;
    const std::string_view s = text.view();
    std::size_t at = 0;
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    if (!s.empty()) {
      const std::size_t first = CharLength(s, 0);
      if (first < s.size() && is_align(s[first])) {
        spec.fill = Text(std::string(s.substr(0, first)), text.TrustedAt(0));
        spec.align = s[first];
        at = first + 1;
      } else if (is_align(s[0])) {
        spec.align = s[0];
        at = 1;
      }
    }
    if (at < s.size() && (s[at] == '+' || s[at] == '-' || s[at] == ' ')) spec.sign = s[at++];
    if (at < s.size() && s[at] == '#') {
      spec.alternate = true;
      ++at;
    }
    if (at < s.size() && s[at] == '0' && spec.align == 0) {
      spec.fill = Text("0", kTrusted);
      spec.align = '=';
      ++at;
    }
    spec.width = ReadCount(s, &at).value_or(0);
    if (at < s.size() && (s[at] == ',' || s[at] == '_')) spec.grouping = s[at++];
    if (at < s.size() && s[at] == '.') {
      ++at;
      spec.precision = ReadCount(s, &at);
      if (!spec.precision) run_.Fail("Format specifier missing precision");
    }
    if (at < s.size()) spec.type = s[at++];
    if (at != s.size()) run_.Fail("Invalid format specifier");
    return spec;
  }

  void One(TextBuilder& builder, const Value& value, const Text& text) {
    if (text.empty()) return builder.Append(ToText(run_, value));
    FormatSpec spec = Parse(text);
    if (run_.failed()) return;
    if (value.IsString()) {
      if (spec.sign != 0) return void(run_.Fail("Sign not allowed in string format specifier"));
      if (spec.grouping != 0) return void(run_.Fail("Cannot specify a grouping with 's'."));
      if (spec.alternate) return void(run_.Fail("Alternate form (#) not allowed in string format specifier"));
      if (spec.type != 0 && spec.type != 's') return void(run_.Fail("Unknown format code for object of type 'str'"));
      if (spec.align == '=') {
        if (spec.fill.view() != "0") return void(run_.Fail("'=' alignment not allowed in string format specifier"));
        spec.align = '<';
      }
      return AppendPadded(builder, spec, Shortened(run_, value.text(), spec.precision), '<');
    }
    if (!value.IsNumber()) {
      return void(run_.Fail(fmt::format("unsupported format string passed to {}.__format__", KindName(value))));
    }
    if (!value.is(Kind::kFloat) && spec.precision && (spec.type == 0 || std::string_view("bcdoxXn").find(spec.type) != std::string_view::npos)) {
      return void(run_.Fail("Precision not allowed in integer format specifier"));
    }
    bool negative = false;
    const std::string digits = NumberDigits(run_, value, spec, &negative);
    AppendNumber(builder, spec, digits, negative, !value.from_outside());
  }

  enum class Numbering { kUnknown, kAutomatic, kGiven };

  Run& run_;
  const Arguments& arguments_;
  Numbering numbering_ = Numbering::kUnknown;
  std::uint64_t next_ = 0;
};

}  // namespace

Value FormatPercent(Run& run, const Value& pattern, const Value& values) {
  return PercentFormatter(run, pattern, values).Format();
}

Value FormatBraces(Run& run, const Text& pattern, const Arguments& arguments) {
  return run.String(BraceFormatter(run, arguments).Format(pattern, 2));
}

}  // namespace skein::text::templates
