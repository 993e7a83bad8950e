// SPDX-License-Identifier: Apache-2.0
//
// Filters on text. Each takes str() of its value, as the reference does.
#include <algorithm>

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

bool IsMarkup(const Value& value) { return value.IsString() && value.markup(); }

template <Text (*Map)(Run&, const Text&)>
Value Mapped(Run& run, const Value& self, Bound&) {
  return run.String(Map(run, ToText(run, self)), IsMarkup(self));
}

Value Trim(Run& run, const Value& self, Bound& arguments) {
  const Text text = ToText(run, self);
  if (!arguments.given[0] || arguments[0].is(Kind::kNone)) {
    return run.String(Strip(run.meter(), text, std::nullopt, true, true), IsMarkup(self));
  }
  const Text chars = StringArgument(run, arguments, 0, "");
  return run.String(Strip(run.meter(), text, chars.view(), true, true), IsMarkup(self));
}

Value ReplaceFilter(Run& run, const Value& self, Bound& arguments) {
  const bool all = !arguments.given[2] || arguments[2].is(Kind::kNone);
  const std::int64_t most = all ? -1 : IntegerArgument(run, arguments, 2, -1);
  const Text old = TextArgument(run, arguments, 0, "");
  const Text with = TextArgument(run, arguments, 1, "");
  if (!run.autoescape()) return run.String(Replace(run, ToText(run, self), old, with, most));
  return run.String(Replace(run, EscapeHtml(run, self).text(), old, EscapeHtml(run, arguments[1]).text(), most), true);
}

Value StringFilter(Run& run, const Value& self, Bound&) {
  return self.IsString() ? self : run.String(ToText(run, self));
}

Value FormatFilter(Run& run, const Value& self, Bound& arguments) {
  const Value pattern = self.IsString() ? self : run.String(ToText(run, self));
  if (arguments.rest.named.empty()) {
    return FormatPercent(run, pattern, Value::Tuple(run.meter(), std::move(arguments.rest.positional)));
  }
  if (!arguments.rest.positional.empty()) return run.Fail("can't handle positional and keyword arguments at the same time");
  Ref<DictObject> dict = Make<DictObject>(run.meter());
  for (auto& [name, value] : arguments.rest.named) dict->Set(name, std::move(value));
  return FormatPercent(run, pattern, Value::Of(Kind::kDict, dict));
}

Value Indent(Run& run, const Value& self, Bound& arguments) {
  if (!self.IsString()) {
    return FailIfUndefined(run, self) ? Value() : run.Fail(fmt::format("cannot indent a value of type '{}'", KindName(self)));
  }
  Text margin;
  if (arguments.given[0] && arguments[0].IsString()) {
    margin = arguments[0].text();
  } else {
    TextBuilder blanks(run.meter());
    blanks.AppendRepeated(Text(" ", kTrusted), static_cast<std::uint64_t>(std::max<std::int64_t>(0, IntegerArgument(run, arguments, 0, 4))));
    margin = blanks.Take();
  }
  const bool first = TruthArgument(arguments, 1, false);
  const bool blank = TruthArgument(arguments, 2, false);
  TextBuilder with_end(run.meter());
  with_end.Append(self.text());
  with_end.Append("\n", kTrusted);
  TextBuilder builder(run.meter());
  bool begins = true;
  for (const Text& line : SplitLines(run, with_end.Take(), false)) {
    if (run.failed()) break;
    if (!begins) builder.Append("\n", kTrusted);
    if (begins ? first : blank || !line.empty()) builder.Append(margin);
    builder.Append(line);
    begins = false;
  }
  return run.String(builder.Take(), self.markup());
}

Value Center(Run& run, const Value& self, Bound& arguments) {
  const Text text = ToText(run, self);
  return run.String(CenterText(run, text, IntegerArgument(run, arguments, 0, 80), Text(" ", kTrusted)), IsMarkup(self));
}

Value Truncate(Run& run, const Value& self, Bound& arguments) {
  const std::int64_t length = IntegerArgument(run, arguments, 0, 255);
  const bool cut_words = TruthArgument(arguments, 1, false);
  const Text end = StringArgument(run, arguments, 2, "...");
  const bool no_leeway = !arguments.given[3] || arguments[3].is(Kind::kNone);
  const std::int64_t leeway = no_leeway ? 5 : IntegerArgument(run, arguments, 3, 5);
  const auto end_chars = static_cast<std::int64_t>(CountChars(end.view()));
  if (length < end_chars) return run.Fail(fmt::format("expected length >= {}, got {}", end_chars, length));
  if (leeway < 0) return run.Fail(fmt::format("expected leeway >= 0, got {}", leeway));
  const std::optional<std::int64_t> chars = Length(self);
  if (!chars) return run.Fail(fmt::format("object of type '{}' has no len()", KindName(self)));
  if (run.failed() || *chars - leeway <= length) return self;
  const Value cut = GetSlice(run, self, Value::None(), Value::Int(length - end_chars), Value::None());
  if (!cut.IsString()) return run.Fail("can only truncate text");
  Text kept = cut.text();
  if (!cut_words) kept = Split(run, kept, " ", 1, /*from_right=*/true).front();
  TextBuilder builder(run.meter());
  builder.Append(kept);
  builder.Append(end);
  return run.String(builder.Take(), cut.markup());
}

Value WordCount(Run& run, const Value& self, Bound&) {
  const Text text = ToText(run, self);
  run.meter().Work(text.size());
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    const char32_t c = CharAt(text.view(), at, &length);
    const bool word = c == '_' || IsAlnum(c);
    if (word && !inside) ++words;
    inside = word;
    at += length;
  }
  return Value::Int(words);
}

Value WordWrap(Run& run, const Value& self, Bound& arguments) {
  WrapOptions options;
  options.width = IntegerArgument(run, arguments, 0, 79);
  options.break_long_words = TruthArgument(arguments, 1, true);
  const bool no_end = !arguments.given[2] || arguments[2].is(Kind::kNone);
  const Text line_end = no_end ? Text("\n", kTrusted) : StringArgument(run, arguments, 2, "");
  options.break_on_hyphens = TruthArgument(arguments, 3, true);
  if (!self.IsString()) return FailIfUndefined(run, self) ? Value() : run.Fail("can only wrap text");
  TextBuilder builder(run.meter());
  bool first = true;
  for (const Text& paragraph : SplitLines(run, self.text(), false)) {
    std::vector<Text> lines = WrapText(run, paragraph, options);
    if (lines.empty()) lines.emplace_back();
    for (const Text& line : lines) {
      if (run.failed()) return Value();
      if (!first) builder.Append(line_end);
      first = false;
      builder.Append(line);
    }
  }
  return run.String(builder.Take());
}

// Joins with str() of the separator between. Where escaping is on, one part of markup makes all of it markup.
Value Join(Run& run, const Value& self, Bound& arguments) {
  const AttributePath path(run, arguments.given[1] ? arguments[1] : Value::None());
  const std::unique_ptr<Iterator> items = Iterate(run, self);
  if (items == nullptr) return Value();
  const Value separator = arguments.given[0] ? arguments[0] : run.String("");
  bool markup = run.autoescape() && IsMarkup(separator);
  std::vector<Value> parts;
  Value item;
  while (!run.failed() && items->Next(&item)) {
    parts.push_back(path.Get(item));
    markup = markup || (run.autoescape() && IsMarkup(parts.back()));
    if ((parts.size() & 1023) == 0) run.meter().Reserve(parts.size() * sizeof(Value));
  }
  TextBuilder builder(run.meter());
  const auto append = [&](const Value& part) {
    if (markup) {
      builder.Append(EscapeHtml(run, part).text());
    } else if (part.IsString()) {
      builder.Append(part.text());
    } else {
      builder.Append(ToText(run, part));
    }
  };
  for (std::size_t i = 0; i < parts.size() && !run.failed(); ++i) {
    if (i != 0) append(separator);
    append(parts[i]);
  }
  return run.String(builder.Take(), markup);
}

JsonOptions ReadJsonOptions(Run& run, const Bound& arguments) {
  JsonOptions options;
  options.ensure_ascii = TruthArgument(arguments, 0, false);
  if (arguments.given[1] && !arguments[1].is(Kind::kNone)) {
    if (arguments[1].IsString()) {
      options.indent = arguments[1].text();
    } else {
      TextBuilder blanks(run.meter());
      blanks.AppendRepeated(Text(" ", kTrusted), static_cast<std::uint64_t>(std::max<std::int64_t>(0, IntegerArgument(run, arguments, 1, 0))));
      options.indent = blanks.Take();
    }
  }
  if (arguments.given[2] && !arguments[2].is(Kind::kNone)) {
    const std::vector<Value> separators = Collect(run, arguments[2]);
    if (separators.size() != 2 || !separators[0].IsString() || !separators[1].IsString()) {
      run.Fail("separators are two strings");
      return options;
    }
    options.item_separator = separators[0].text();
    options.key_separator = separators[1].text();
  }
  options.sort_keys = TruthArgument(arguments, 3, false);
  return options;
}

Value ToJsonFilter(Run& run, const Value& self, Bound& arguments) {
  const JsonOptions options = ReadJsonOptions(run, arguments);
  return run.failed() ? Value() : run.String(ToJson(run, self, options));
}

constexpr Builtin kFilters[] = {
    {"upper", Mapped<Upper>},
    {"lower", Mapped<Lower>},
    {"title", Mapped<TitleWords>},
    {"capitalize", Mapped<Capitalize>},
    {"trim", Trim, "chars"},
    {"replace", ReplaceFilter, "old,new,count", 2},
    {"string", StringFilter},
    {"format", FormatFilter, "..."},
    {"indent", Indent, "width,first,blank"},
    {"center", Center, "width"},
    {"truncate", Truncate, "length,killwords,end,leeway"},
    {"wordcount", WordCount},
    {"wordwrap", WordWrap, "width,break_long_words,wrapstring,break_on_hyphens"},
    {"join", Join, "d,attribute"},
    {"tojson", ToJsonFilter, "ensure_ascii,indent,separators,sort_keys"},
};

}  // namespace

std::span<const Builtin> TextFilters() { return kFilters; }

}  // namespace skein::text::templates
