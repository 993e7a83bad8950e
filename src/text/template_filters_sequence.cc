// SPDX-License-Identifier: Apache-2.0
//
// Filters on lists, dicts and other things with items: taking, ordering, grouping.
#include <algorithm>

#include <fmt/format.h>

#include "text/template_filter_tables.h"
#include "text/template_operators.h"
#include "text/template_print.h"
#include "text/template_sort.h"
#include "text/template_strings.h"

namespace skein::text::templates {
namespace {

Value LengthFilter(Run& run, const Value& self, Bound&) {
  if (const std::optional<std::int64_t> length = Length(self)) return Value::Int(*length);
  return run.Fail(fmt::format("object of type '{}' has no len()", KindName(self)));
}

Value ListFilter(Run& run, const Value& self, Bound&) { return run.List(Collect(run, self)); }

Value First(Run& run, const Value& self, Bound&) {
  const std::unique_ptr<Iterator> items = Iterate(run, self);
  Value first;
  if (items == nullptr || items->Next(&first)) return first;
  return Value::Undefined(run.meter(), "No first item, sequence was empty.");
}

bool IsReversible(const Value& value) { return IsIterable(value) && !value.is(Kind::kGenerator) && !value.is(Kind::kLoop); }

Value Last(Run& run, const Value& self, Bound&) {
  if (!IsReversible(self)) return run.Fail(fmt::format("'{}' object is not reversible", KindName(self)));
  const std::int64_t length = *Length(self);
  if (length == 0) return Value::Undefined(run.meter(), "No last item, sequence was empty.");
  if (self.IsList() || self.IsString() || self.is(Kind::kRange)) return GetItem(run, self, Value::Int(-1));
  return Collect(run, self).back();
}

class VectorIterator final : public Iterator {
 public:
  explicit VectorIterator(Meter& meter, std::vector<Value> items) : meter_(meter), items_(std::move(items)) {}
  bool Next(Value* value) override {
    if (at_ >= items_.size()) return false;
    *value = items_[at_++];
    return meter_.Step();
  }

 private:
  Meter& meter_;
  const std::vector<Value> items_;
  std::size_t at_ = 0;
};

Value Generate(Run& run, std::vector<Value> items) {
  return MakeGenerator(run, std::make_unique<VectorIterator>(run.meter(), std::move(items)));
}

Value Reverse(Run& run, const Value& self, Bound&) {
  if (self.IsString()) return GetSlice(run, self, Value::None(), Value::None(), Value::Int(-1));
  std::vector<Value> items = Collect(run, self);
  std::reverse(items.begin(), items.end());
  return IsReversible(self) ? Generate(run, std::move(items)) : run.List(std::move(items));
}

Value Random(Run& run, const Value& self, Bound&) {
  const std::optional<std::int64_t> length = Length(self);
  if (!length) return run.Fail(fmt::format("object of type '{}' has no len()", KindName(self)));
  if (*length == 0) return Value::Undefined(run.meter(), "No random item, sequence was empty.");
  return GetItem(run, self, Value::Int(static_cast<std::int64_t>(run.NextRandom() % static_cast<std::uint64_t>(*length))));
}

// Items with what they are ordered by.
struct Keyed {
  Value key;
  Value item;
};

void SortKeyed(Run& run, std::vector<Keyed>& items, bool reverse) {
  StableSort(items, [&](const Keyed& a, const Keyed& b) {
    if (!run.meter().Step()) return false;
    return reverse ? Less(run, b.key, a.key) : Less(run, a.key, b.key);
  });
}

std::vector<Value> ItemsOf(std::vector<Keyed> keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& one : keyed) items.push_back(std::move(one.item));
  return items;
}

Value SortKey(Run& run, const Value& value, bool case_sensitive) {
  return case_sensitive ? value : IgnoreCase(run, value);
}

Value Sort(Run& run, const Value& self, Bound& arguments) {
  const bool reverse = TruthArgument(arguments, 0, false);
  const bool case_sensitive = TruthArgument(arguments, 1, false);
  const Value attribute = arguments.given[2] ? arguments[2] : Value::None();
  std::vector<AttributePath> paths;
  if (attribute.IsString()) {
    for (Text& part : Split(run, attribute.text(), ",", -1, false)) paths.emplace_back(run, run.String(std::move(part)));
  } else {
    paths.emplace_back(run, attribute);
  }
  std::vector<Keyed> items;
  for (Value& item : Collect(run, self)) {
    if (run.failed()) return Value();
    std::vector<Value> keys;  // compared one after the other; equal ones, undefined ones too, say nothing
    for (const AttributePath& path : paths) keys.push_back(SortKey(run, path.Get(item), case_sensitive));
    items.push_back({run.List(std::move(keys)), std::move(item)});
  }
  SortKeyed(run, items, reverse);
  return run.List(ItemsOf(std::move(items)));
}

Value DictSort(Run& run, const Value& self, Bound& arguments) {
  const bool case_sensitive = TruthArgument(arguments, 0, false);
  const Text by = StringArgument(run, arguments, 1, "key");
  const bool reverse = TruthArgument(arguments, 2, false);
  if (FailIfUndefined(run, self)) return Value();
  if (!self.is(Kind::kDict)) return run.Fail(fmt::format("'{}' object has no attribute 'items'", KindName(self)));
  if (by.view() != "key" && by.view() != "value") return run.Fail("You can only sort by either \"key\" or \"value\"");
  std::vector<Keyed> items;
  for (const DictObject::Entry& entry : self.dict().entries()) {
    const Value& key = by.view() == "key" ? entry.key : entry.value;
    items.push_back({SortKey(run, key, case_sensitive), Value::Tuple(run.meter(), {entry.key, entry.value})});
  }
  SortKeyed(run, items, reverse);
  return run.List(ItemsOf(std::move(items)));
}

Value Unique(Run& run, const Value& self, Bound& arguments) {
  const bool case_sensitive = TruthArgument(arguments, 0, false);
  const AttributePath path(run, arguments.given[1] ? arguments[1] : Value::None());
  Ref<DictObject> seen = Make<DictObject>(run.meter());
  std::vector<Value> items;
  for (Value& item : Collect(run, self)) {
    const Value key = SortKey(run, path.Get(item), case_sensitive);
    if (run.failed()) return Value();
    const std::size_t before = seen->size();
    seen->Set(key, Value::None());
    if (seen->size() != before) items.push_back(std::move(item));
  }
  return Generate(run, std::move(items));
}

Value Extreme(Run& run, const Value& self, const Bound& arguments, bool largest) {
  const bool case_sensitive = TruthArgument(arguments, 0, false);
  const AttributePath path(run, arguments.given[1] ? arguments[1] : Value::None());
  const std::unique_ptr<Iterator> items = Iterate(run, self);
  Value best;
  if (items == nullptr) return Value();
  if (!items->Next(&best)) return Value::Undefined(run.meter(), "No aggregated item, sequence was empty.");
  Value best_key = SortKey(run, path.Get(best), case_sensitive);
  Value item;
  while (!run.failed() && items->Next(&item)) {
    Value key = SortKey(run, path.Get(item), case_sensitive);
    if (!(largest ? CompareValues(run, Op::kGreater, key, best_key) : Less(run, key, best_key))) continue;
    best = item;
    best_key = std::move(key);
  }
  return best;
}
Value Min(Run& run, const Value& self, Bound& arguments) { return Extreme(run, self, arguments, false); }
Value Max(Run& run, const Value& self, Bound& arguments) { return Extreme(run, self, arguments, true); }

Value Sum(Run& run, const Value& self, Bound& arguments) {
  const AttributePath path(run, arguments.given[0] ? arguments[0] : Value::None());
  Value total = arguments.given[1] ? arguments[1] : Value::Int(0);
  if (total.IsString()) return run.Fail("sum() can't sum strings [use ''.join(seq) instead]");
  const std::unique_ptr<Iterator> items = Iterate(run, self);
  Value item;
  while (items != nullptr && !run.failed() && items->Next(&item)) {
    total = Arithmetic(run, Op::kAdd, total, path.Get(item));
  }
  return total;
}

Value GroupBy(Run& run, const Value& self, Bound& arguments) {
  const Value otherwise = arguments.given[1] ? arguments[1] : Value::None();
  const bool case_sensitive = TruthArgument(arguments, 2, false);
  const AttributePath path(run, arguments[0], &otherwise);
  std::vector<Keyed> items;
  for (Value& item : Collect(run, self)) {
    if (run.failed()) return Value();
    items.push_back({SortKey(run, path.Get(item), case_sensitive), item});
  }
  SortKeyed(run, items, false);
  std::vector<Value> groups;
  for (std::size_t begin = 0; begin < items.size() && !run.failed();) {
    std::size_t end = begin + 1;
    while (end < items.size() && Equal(run.meter(), items[begin].key, items[end].key)) ++end;
    std::vector<Value> members;
    for (std::size_t i = begin; i < end; ++i) members.push_back(items[i].item);
    const Value key = case_sensitive ? items[begin].key : path.Get(items[begin].item);
    Ref<ListObject> group = Make<ListObject>(run.meter(), std::vector<Value>{key, run.List(std::move(members))});
    group->group = true;
    groups.push_back(Value::Of(Kind::kTuple, group));
    begin = end;
  }
  return run.List(std::move(groups));
}

Value Items(Run& run, const Value& self, Bound&) {
  if (self.is(Kind::kUndefined)) return Generate(run, {});
  if (!self.is(Kind::kDict)) return run.Fail("Can only get item pairs from a mapping.");
  std::vector<Value> items;
  for (const DictObject::Entry& entry : self.dict().entries()) {
    items.push_back(Value::Tuple(run.meter(), {entry.key, entry.value}));
  }
  return Generate(run, std::move(items));
}

Value Batch(Run& run, const Value& self, Bound& arguments) {
  const std::int64_t count = IntegerArgument(run, arguments, 0, 1);
  const bool fill = arguments.given[1] && !arguments[1].is(Kind::kNone);
  std::vector<Value> batches;
  std::vector<Value> batch;
  const std::unique_ptr<Iterator> items = Iterate(run, self);
  Value item;
  while (items != nullptr && !run.failed() && items->Next(&item)) {
    if (static_cast<std::int64_t>(batch.size()) == count) batches.push_back(run.List(std::exchange(batch, {})));
    batch.push_back(item);
  }
  if (!batch.empty()) {
    while (fill && static_cast<std::int64_t>(batch.size()) < count && run.meter().Step() &&
           run.meter().Reserve(batch.size() * sizeof(Value))) {
      batch.push_back(arguments[1]);
    }
    batches.push_back(run.List(std::move(batch)));
  }
  return Generate(run, std::move(batches));
}

Value SliceFilter(Run& run, const Value& self, Bound& arguments) {
  const std::vector<Value> items = Collect(run, self);
  const std::int64_t slices = IntegerArgument(run, arguments, 0, 1);
  const bool fill = arguments.given[1] && !arguments[1].is(Kind::kNone);
  if (run.failed()) return Value();
  if (slices <= 0) return slices == 0 ? run.Fail("integer division or modulo by zero") : Generate(run, {});
  const auto length = static_cast<std::int64_t>(items.size());
  std::vector<Value> result;
  std::int64_t at = 0;
  for (std::int64_t n = 0; n < slices && run.meter().Step(); ++n) {
    const bool extra = n < length % slices;
    const std::int64_t end = at + length / slices + (extra ? 1 : 0);
    std::vector<Value> part(items.begin() + at, items.begin() + end);
    if (fill && !extra) part.push_back(arguments[1]);
    result.push_back(run.List(std::move(part)));
    at = end;
  }
  return Generate(run, std::move(result));
}

Value Default(Run& run, const Value& self, Bound& arguments) {
  const bool replace = self.is(Kind::kUndefined) || (TruthArgument(arguments, 1, false) && !Truth(self));
  if (!replace) return self;
  return arguments.given[0] ? arguments[0] : run.String("");
}

Value Attr(Run& run, const Value& self, Bound& arguments) {
  const Text name = StringArgument(run, arguments, 0, "");
  if (run.failed()) return Value();
  return GetMember(run, self, name.view());
}

constexpr Builtin kFilters[] = {
    {"length", LengthFilter},
    {"count", LengthFilter},
    {"list", ListFilter},
    {"first", First},
    {"last", Last},
    {"reverse", Reverse},
    {"random", Random},
    {"sort", Sort, "reverse,case_sensitive,attribute"},
    {"dictsort", DictSort, "case_sensitive,by,reverse"},
    {"unique", Unique, "case_sensitive,attribute"},
    {"min", Min, "case_sensitive,attribute"},
    {"max", Max, "case_sensitive,attribute"},
    {"sum", Sum, "attribute,start"},
    {"groupby", GroupBy, "attribute,default,case_sensitive", 1},
    {"items", Items},
    {"batch", Batch, "linecount,fill_with", 1},
    {"slice", SliceFilter, "slices,fill_with", 1},
    {"default", Default, "default_value,boolean"},
    {"d", Default, "default_value,boolean"},
    {"attr", Attr, "name", 1},
};

}  // namespace

std::span<const Builtin> SequenceFilters() { return kFilters; }

}  // namespace skein::text::templates
