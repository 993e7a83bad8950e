// SPDX-License-Identifier: Apache-2.0
//
// Methods of strings, as Python's str has them.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "text/template_filter_tables.h"
#include "text/template_format.h"
#include "text/template_operators.h"
#include "text/template_print.h"
#include "text/template_strings.h"
#include "text/template_unicode.h"
#include "text/template_wrap.h"

namespace skein::text::templates {
namespace {

template <Text (*Map)(Run&, const Text&)>
Value Mapped(Run& run, const Value& self, Bound&) {
  return run.String(Map(run, self.text()), self.markup());
}

template <bool kLeft, bool kRight>
Value Stripped(Run& run, const Value& self, Bound& arguments) {
  if (!arguments.given[0] || arguments[0].is(Kind::kNone)) {
    return run.String(Strip(run.meter(), self.text(), std::nullopt, kLeft, kRight), self.markup());
  }
  const Text chars = StringArgument(run, arguments, 0, "");
  run.meter().Work(chars.size() * std::min<std::size_t>(self.text().size(), 4096));
  return run.String(Strip(run.meter(), self.text(), chars.view(), kLeft, kRight), self.markup());
}

template <bool kFromRight>
Value SplitMethod(Run& run, const Value& self, Bound& arguments) {
  const std::int64_t most = IntegerArgument(run, arguments, 1, -1);
  if (!arguments.given[0] || arguments[0].is(Kind::kNone)) {
    return StringList(run, Split(run, self.text(), std::nullopt, most, kFromRight), self.markup());
  }
  const Text separator = StringArgument(run, arguments, 0, "");
  if (run.failed()) return Value();
  return StringList(run, Split(run, self.text(), separator.view(), most, kFromRight), self.markup());
}

Value SplitLinesMethod(Run& run, const Value& self, Bound& arguments) {
  return StringList(run, SplitLines(run, self.text(), TruthArgument(arguments, 0, false)), self.markup());
}

// The part of the text that the arguments `start` and `end` choose, as bytes; and the characters before it.
struct Window {
  std::size_t begin, end;
  std::int64_t chars_before;
  bool valid;  // false when start lies behind the end
};

Window WindowOf(Run& run, const Value& self, const Bound& arguments, std::size_t place) {
  const auto length = static_cast<std::int64_t>(self.chars());
  const auto bound = [&](std::size_t at, std::int64_t otherwise) {
    if (!arguments.given[at] || arguments[at].is(Kind::kNone)) return otherwise;
    const std::int64_t value = IntegerArgument(run, arguments, at, otherwise);
    return value < 0 ? std::max<std::int64_t>(0, value + length) : value;
  };
  const std::int64_t start = bound(place, 0);
  const std::int64_t stop = std::min(bound(place + 1, length), length);
  if (start > stop) return {0, 0, 0, false};
  const std::string_view s = self.text().view();
  run.meter().Work(s.size());
  const auto offset = [&](std::int64_t chars) {
    if (self.chars() == s.size()) return static_cast<std::size_t>(chars);
    std::size_t at = 0;
    for (; chars > 0; --chars) at += CharLength(s, at);
    return at;
  };
  return {offset(start), offset(stop), start, true};
}

// startswith and endswith: one string or a tuple of them.
template <bool kAtEnd>
Value StartsOrEnds(Run& run, const Value& self, Bound& arguments) {
  const Window window = WindowOf(run, self, arguments, 1);
  const std::string_view s = self.text().view().substr(window.begin, window.end - window.begin);
  const auto matches = [&](const Value& part) {
    if (!part.IsString()) {
      if (!FailIfUndefined(run, part)) run.Fail("startswith and endswith want str or a tuple of str");
      return false;
    }
    return window.valid && (kAtEnd ? s.ends_with(part.text().view()) : s.starts_with(part.text().view()));
  };
  if (!arguments[0].is(Kind::kTuple)) return Value::Bool(matches(arguments[0]));
  for (const Value& part : arguments[0].items()) {
    if (matches(part)) return Value::Bool(true);
  }
  return Value::Bool(false);
}

std::int64_t FindText(Run& run, const Value& self, const Bound& arguments, bool from_right) {
  const Text part = StringArgument(run, arguments, 0, "");
  const Window window = WindowOf(run, self, arguments, 1);
  if (run.failed() || !window.valid) return -1;
  const std::string_view s = self.text().view().substr(window.begin, window.end - window.begin);
  const std::size_t found = from_right ? s.rfind(part.view()) : s.find(part.view());
  if (found == std::string_view::npos) return -1;
  return window.chars_before + static_cast<std::int64_t>(CountChars(s.substr(0, found)));
}

template <bool kFromRight>
Value Find(Run& run, const Value& self, Bound& arguments) {
  return Value::Int(FindText(run, self, arguments, kFromRight));
}

template <bool kFromRight>
Value Index(Run& run, const Value& self, Bound& arguments) {
  const std::int64_t found = FindText(run, self, arguments, kFromRight);
  return found < 0 ? run.Fail("substring not found") : Value::Int(found);
}

Value Count(Run& run, const Value& self, Bound& arguments) {
  const Text part = StringArgument(run, arguments, 0, "");
  const Window window = WindowOf(run, self, arguments, 1);
  if (run.failed() || !window.valid) return Value::Int(0);
  const std::string_view s = self.text().view().substr(window.begin, window.end - window.begin);
  if (part.empty()) return Value::Int(static_cast<std::int64_t>(CountChars(s)) + 1);
  std::int64_t count = 0;
  for (std::size_t at = s.find(part.view()); at != std::string_view::npos; at = s.find(part.view(), at + part.size())) ++count;
  return Value::Int(count);
}

Value ReplaceMethod(Run& run, const Value& self, Bound& arguments) {
  const Text old = StringArgument(run, arguments, 0, "");
  const Text with = StringArgument(run, arguments, 1, "");
  const std::int64_t most = IntegerArgument(run, arguments, 2, -1);
  return run.failed() ? Value() : run.String(Replace(run, self.text(), old, with, most), self.markup());
}

Value JoinMethod(Run& run, const Value& self, Bound& arguments) {
  const std::unique_ptr<Iterator> items = Iterate(run, arguments[0]);
  if (items == nullptr) return Value();
  TextBuilder builder(run.meter());
  Value item;
  for (std::int64_t i = 0; items->Next(&item); ++i) {
    if (!item.IsString()) return run.Fail(fmt::format("sequence item {}: expected str instance, {} found", i, KindName(item)));
    if (i != 0) builder.Append(self.text());
    if (self.markup()) {
      builder.Append(EscapeHtml(run, item).text());
    } else {
      builder.Append(item.text());
    }
  }
  return run.String(builder.Take(), self.markup());
}

template <bool kFromRight>
Value Partition(Run& run, const Value& self, Bound& arguments) {
  const Text separator = StringArgument(run, arguments, 0, "");
  if (run.failed()) return Value();
  if (separator.empty()) return run.Fail("empty separator");
  const std::string_view s = self.text().view();
  const std::size_t found = kFromRight ? s.rfind(separator.view()) : s.find(separator.view());
  Meter& meter = run.meter();
  const auto part = [&](std::size_t begin, std::size_t end) {
    return run.String(Slice(meter, self.text(), begin, end), self.markup());
  };
  if (found == std::string_view::npos) {
    if (kFromRight) return Value::Tuple(meter, {part(0, 0), part(0, 0), part(0, s.size())});
    return Value::Tuple(meter, {part(0, s.size()), part(0, 0), part(0, 0)});
  }
  const std::size_t end = found + separator.size();
  return Value::Tuple(meter, {part(0, found), part(found, end), part(end, s.size())});
}

Text Fill(Run& run, const Bound& arguments) {
  const Text fill = StringArgument(run, arguments, 1, " ");
  if (CountChars(fill.view()) != 1) run.Fail("the fill character must be exactly one character long");
  return fill;
}

Value Center(Run& run, const Value& self, Bound& arguments) {
  const Text fill = Fill(run, arguments);
  return run.String(CenterText(run, self.text(), IntegerArgument(run, arguments, 0, 0), fill), self.markup());
}

template <bool kLeft>
Value Justify(Run& run, const Value& self, Bound& arguments) {
  const Text fill = Fill(run, arguments);
  const std::int64_t width = IntegerArgument(run, arguments, 0, 0);
  const std::int64_t padding = std::max<std::int64_t>(0, width - static_cast<std::int64_t>(self.chars()));
  TextBuilder builder(run.meter());
  if (kLeft) builder.Append(self.text());
  builder.AppendRepeated(fill, static_cast<std::uint64_t>(padding));
  if (!kLeft) builder.Append(self.text());
  return run.String(builder.Take(), self.markup());
}

Value ZeroFill(Run& run, const Value& self, Bound& arguments) {
  const std::int64_t width = IntegerArgument(run, arguments, 0, 0);
  const std::int64_t padding = std::max<std::int64_t>(0, width - static_cast<std::int64_t>(self.chars()));
  const Text& text = self.text();
  const std::size_t sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+') ? 1 : 0;
  TextBuilder builder(run.meter());
  builder.Append(text, 0, sign);
  builder.AppendRepeated(Text("0", kTrusted), static_cast<std::uint64_t>(padding));
  builder.Append(text, sign, text.size());
  return run.String(builder.Take(), self.markup());
}

Value ExpandTabs(Run& run, const Value& self, Bound& arguments) {
  const std::int64_t size = IntegerArgument(run, arguments, 0, 8);
  TextBuilder builder(run.meter());
  std::int64_t column = 0;
  const Text& text = self.text();
  run.meter().Work(text.size() * 8);
  for (std::size_t at = 0; at < text.size() && !run.failed();) {
    const std::size_t length = CharLength(text.view(), at);
    const char c = text.bytes()[at];
    if (c == '\t') {
      if (size > 0) {
        const std::int64_t blanks = size - column % size;
        builder.AppendRepeated(Text(" ", text.TrustedAt(at)), static_cast<std::uint64_t>(blanks));
        column += blanks;
      }
    } else {
      builder.Append(text, at, at + length);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    at += length;
  }
  return run.String(builder.Take(), self.markup());
}

Value FormatMethod(Run& run, const Value& self, Bound& arguments) {
  return FormatBraces(run, self.text(), arguments.rest);
}

Value FormatMap(Run& run, const Value& self, Bound& arguments) {
  if (!arguments[0].is(Kind::kDict)) return run.Fail("format_map wants a mapping");
  Arguments named;
  for (const DictObject::Entry& entry : arguments[0].dict().entries()) {
    if (entry.key.IsString()) named.named.emplace_back(entry.key.text().bytes(), entry.value);
  }
  return FormatBraces(run, self.text(), named);
}

template <bool kPrefix>
Value RemoveEnd(Run& run, const Value& self, Bound& arguments) {
  const Text part = StringArgument(run, arguments, 0, "");
  const std::string_view s = self.text().view();
  std::size_t begin = 0;
  std::size_t end = s.size();
  if (kPrefix && s.starts_with(part.view())) begin = part.size();
  if (!kPrefix && s.ends_with(part.view())) end -= part.size();
  return run.String(Slice(run.meter(), self.text(), begin, end), self.markup());
}

Value Encode(Run& run, const Value& self, Bound& arguments) {
  const Text encoding = StringArgument(run, arguments, 0, "utf-8");
  const std::string name = Lower(run, encoding).bytes();
  const bool ascii = name == "ascii" || name == "us-ascii";
  if (!ascii && name != "utf-8" && name != "utf8") return run.Fail(fmt::format("unknown encoding: {}", name));
  const std::string_view s = self.text().view();
  if (ascii && s.size() != self.chars()) return run.Fail("'ascii' codec can't encode characters");
  if (ToValidUtf8(s) != s) return run.Fail("'utf-8' codec can't encode characters: surrogates not allowed");
  return Value::Of(Kind::kBytes, Make<StringObject>(run.meter(), self.text(), false));
}

constexpr Builtin kMethods[] = {
    {"upper", Mapped<Upper>},
    {"lower", Mapped<Lower>},
    {"title", Mapped<TitleCase>},
    {"capitalize", Mapped<Capitalize>},
    {"swapcase", Mapped<SwapCase>},
    {"casefold", Mapped<CaseFold>},
    {"strip", Stripped<true, true>, "/,chars"},
    {"lstrip", Stripped<true, false>, "/,chars"},
    {"rstrip", Stripped<false, true>, "/,chars"},
    {"split", SplitMethod<false>, "sep,maxsplit"},
    {"rsplit", SplitMethod<true>, "sep,maxsplit"},
    {"splitlines", SplitLinesMethod, "keepends"},
    {"startswith", StartsOrEnds<false>, "/,prefix,start,end", 1},
    {"endswith", StartsOrEnds<true>, "/,suffix,start,end", 1},
    {"find", Find<false>, "/,sub,start,end", 1},
    {"rfind", Find<true>, "/,sub,start,end", 1},
    {"index", Index<false>, "/,sub,start,end", 1},
    {"rindex", Index<true>, "/,sub,start,end", 1},
    {"count", Count, "/,sub,start,end", 1},
    {"replace", ReplaceMethod, "/,old,new,count", 2},
    {"join", JoinMethod, "/,iterable", 1},
    {"partition", Partition<false>, "/,sep", 1},
    {"rpartition", Partition<true>, "/,sep", 1},
    {"center", Center, "/,width,fillchar", 1},
    {"ljust", Justify<true>, "/,width,fillchar", 1},
    {"rjust", Justify<false>, "/,width,fillchar", 1},
    {"zfill", ZeroFill, "/,width", 1},
    {"expandtabs", ExpandTabs, "tabsize"},
    {"format", FormatMethod, "..."},
    {"format_map", FormatMap, "/,mapping", 1},
    {"removeprefix", RemoveEnd<true>, "/,prefix", 1},
    {"removesuffix", RemoveEnd<false>, "/,suffix", 1},
    {"encode", Encode, "encoding,errors"},
};

// ---- facts about all characters ----

template <bool (*kTest)(char32_t)>
Value All(Run& run, const Value& self, Bound&) {
  run.meter().Work(self.text().size());
  return Value::Bool(AllChars(self.text().view(), kTest));
}

template <bool (*kTest)(std::string_view)>
Value Whole(Run& run, const Value& self, Bound&) {
  run.meter().Work(self.text().size());
  return Value::Bool(kTest(self.text().view()));
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}
bool IsPrintableText(std::string_view text) { return text.empty() || AllChars(text, IsPrintable); }
bool IsIdentifier(std::string_view text) {
  bool first = true;
  return AllChars(text, [&](char32_t c) { return std::exchange(first, false) ? IsNameStart(c) : IsNameRest(c); });
}
bool IsAlnumChar(char32_t c) { return IsAlnum(c); }

constexpr Builtin kFacts[] = {
    {"isalpha", All<IsAlpha>},
    {"isalnum", All<IsAlnumChar>},
    {"isdecimal", All<IsDecimal>},
    {"isdigit", All<IsDigit>},
    {"isnumeric", All<IsNumeric>},
    {"isspace", All<IsSpace>},
    {"islower", Whole<IsLowerText>},
    {"isupper", Whole<IsUpperText>},
    {"istitle", Whole<IsTitleText>},
    {"isascii", Whole<IsAscii>},
    {"isprintable", Whole<IsPrintableText>},
    {"isidentifier", Whole<IsIdentifier>},
};

}  // namespace

std::span<const Builtin> StringMethods() { return kMethods; }
std::span<const Builtin> StringFacts() { return kFacts; }

}  // namespace skein::text::templates
