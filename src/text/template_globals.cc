// SPDX-License-Identifier: Apache-2.0
//
// Functions that every template can call: range, dict, namespace, raise_exception, strftime_now and a few more.
#include <array>
#include <limits>

#include <fmt/format.h>

#include "text/template_filter_tables.h"
#include "text/template_format.h"
#include "text/template_operators.h"
#include "text/template_print.h"

namespace skein::text::templates {
namespace {

Value Range(Run& run, const Value&, Bound& arguments) {
  constexpr std::uint64_t kLengthMost = 100'000;
  std::int64_t start = 0;
  std::int64_t stop = IntegerArgument(run, arguments, 0, 0);
  if (arguments.given[1]) {
    start = stop;
    stop = IntegerArgument(run, arguments, 1, 0);
  }
  const std::int64_t step = IntegerArgument(run, arguments, 2, 1);
  if (run.failed()) return Value();
  if (step == 0) return run.Fail("range() arg 3 must not be zero");
  // Unsigned differences hold what signed ones cannot.
  const auto a = static_cast<std::uint64_t>(step > 0 ? start : stop);
  const auto b = static_cast<std::uint64_t>(step > 0 ? stop : start);
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : ~static_cast<std::uint64_t>(step) + 1;
  const bool empty = step > 0 ? start >= stop : start <= stop;
  const std::uint64_t length = empty ? 0 : (b - a - 1) / stride + 1;
  if (length > kLengthMost) {
    run.meter().Limit(fmt::format("range of more than {} items", kLengthMost));
    return Value();
  }
  return Value::Of(Kind::kRange, Make<RangeObject>(run.meter(), start, stop, step, static_cast<std::int64_t>(length)));
}

// Fills a dict as Python's dict() does: from a mapping or pairs, then from named arguments.
void FillDict(Run& run, DictObject& dict, Bound& arguments) {
  if (arguments.rest.positional.size() > 1) return void(run.Fail("dict expected at most 1 argument"));
  for (const Value& source : arguments.rest.positional) {
    if (source.is(Kind::kDict)) {
      for (const DictObject::Entry& entry : source.dict().entries()) dict.Set(entry.key, entry.value);
      continue;
    }
    for (const Value& pair : Collect(run, source)) {
      const std::vector<Value> parts = Collect(run, pair);
      if (run.failed()) return;
      if (parts.size() != 2) return void(run.Fail("dictionary update sequence element must have length 2"));
      dict.Set(parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : arguments.rest.named) dict.Set(name, value);
}

Value Dict(Run& run, const Value&, Bound& arguments) {
  Ref<DictObject> dict = Make<DictObject>(run.meter());
  FillDict(run, *dict, arguments);
  return Value::Of(Kind::kDict, dict);
}

Value Namespace(Run& run, const Value&, Bound& arguments) {
  Ref<NamespaceObject> space = Make<NamespaceObject>(run.meter());
  FillDict(run, *space->values, arguments);
  for (const DictObject::Entry& entry : space->values->entries()) {
    if (entry.key.IsString() && entry.key.text().view().starts_with('_')) {
      return run.Fail(fmt::format("no underscore-prefixed attribute on a namespace: '{}'", entry.key.text().view()));
    }
  }
  return Value::Of(Kind::kNamespace, space);
}

Value RaiseException(Run& run, const Value&, Bound& arguments) {
  const Text message = ToText(run, arguments[0]);
  return run.Fail(ToValidUtf8(message.view()));
}

Value StrftimeNow(Run& run, const Value&, Bound& arguments) {
  const Text pattern = StringArgument(run, arguments, 0, "");
  if (run.failed()) return Value();
  return run.String(FormatTime(run, run.now(), pattern.view()), pattern.AllTrusted());
}

Value Cycler(Run& run, const Value&, Bound& arguments) {
  if (arguments.rest.positional.empty()) return run.Fail("at least one item has to be provided");
  return Value::Of(Kind::kCycler, Make<CyclerObject>(run.meter(), std::move(arguments.rest.positional)));
}

Value Joiner(Run& run, const Value&, Bound& arguments) {
  const Value separator = arguments.given[0] ? arguments[0] : run.String(", ");
  return Value::Of(Kind::kJoiner, Make<JoinerObject>(run.meter(), separator));
}

// Paragraphs of dummy text.
Value Lipsum(Run& run, const Value&, Bound& arguments) {
  constexpr std::array<std::string_view, 12> kWords = {"amet", "dolor", "elit", "ipsum", "lorem", "magna",
                                                       "nulla", "porta", "quis", "sed", "tellus", "vitae"};
  const std::int64_t count = IntegerArgument(run, arguments, 0, 5);
  const bool html = TruthArgument(arguments, 1, true);
  const std::int64_t least = std::max<std::int64_t>(1, IntegerArgument(run, arguments, 2, 20));
  const std::int64_t most = std::max(least + 1, IntegerArgument(run, arguments, 3, 100));
  TextBuilder builder(run.meter());
  for (std::int64_t i = 0; i < count && !run.failed(); ++i) {
    if (i != 0) builder.Append(html ? "\n" : "\n\n", kTrusted);
    if (html) builder.Append("<p>", kTrusted);
    const std::uint64_t words = static_cast<std::uint64_t>(least) + run.NextRandom() % static_cast<std::uint64_t>(most - least);
    for (std::uint64_t w = 0; w < words && run.meter().Step(); ++w) {
      std::string word(kWords[run.NextRandom() % kWords.size()]);
      if (w == 0) word[0] = static_cast<char>(word[0] - 'a' + 'A');
      builder.Append(w == 0 ? word : " " + word, kTrusted);
    }
    builder.Append(html ? ".</p>" : ".", kTrusted);
  }
  return run.String(builder.Take(), html);
}

constexpr Builtin kGlobals[] = {
    {"range", Range, "/,start,stop,step", 1},
    {"dict", Dict, "..."},
    {"namespace", Namespace, "..."},
    {"raise_exception", RaiseException, "message", 1},
    {"strftime_now", StrftimeNow, "format", 1},
    {"cycler", Cycler, "..."},
    {"joiner", Joiner, "sep"},
    {"lipsum", Lipsum, "n,html,min,max"},
};

}  // namespace

const Builtin* FindGlobal(std::string_view name) { return FindIn(kGlobals, name); }

}  // namespace skein::text::templates
