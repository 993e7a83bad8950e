// SPDX-License-Identifier: Apache-2.0
//
// Truth, attributes, items, slices and walking of values; see template_operators.h.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "text/template_builtin.h"
#include "text/template_operators.h"
#include "text/template_print.h"

namespace skein::text::templates {
namespace {

Value NoAttribute(Run& run, const Value& value, std::string_view name) {
  return Value::Undefined(run.meter(), fmt::format("'{} object' has no attribute '{}'", KindName(value), name));
}

// A method (or a fact such as range.start), when the kind has one of that name.
std::optional<Value> FindMember(Run& run, const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::kLoop: {
      Value member = run.LoopAttribute(value.as<LoopObject>(), name);
      if (!member.is(Kind::kUndefined) || name == "previtem" || name == "nextitem") return member;
      break;
    }
    case Kind::kMacro: {
      Value member = run.MacroAttribute(value.as<MacroObject>(), name);
      if (!member.is(Kind::kUndefined)) return member;
      break;
    }
    case Kind::kNamespace:
      if (const Value* found = value.dict().Find(name)) return *found;
      break;
    case Kind::kSelf: {
      const auto block = run.program().blocks.find(run.program().FindName(name));
      if (block == run.program().blocks.end()) break;
      return Value::Of(Kind::kMacro, Make<MacroObject>(run.meter(), block->second, std::string(name), nullptr, false));
    }
    case Kind::kTuple:
      if (!value.as<ListObject>().group) break;
      if (name == "grouper") return value.items()[0];
      if (name == "list") return value.items()[1];
      break;
    case Kind::kRange: {
      const RangeObject& range = value.as<RangeObject>();
      if (name == "start") return Value::Int(range.start);
      if (name == "stop") return Value::Int(range.stop);
      if (name == "step") return Value::Int(range.step);
      break;
    }
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kBigInt:
      if (name == "real" || name == "numerator") {
        return value.is(Kind::kBool) ? Value::Int(value.integer()).SetFromOutside(value.from_outside()) : value;
      }
      if (name == "imag") return Value::Int(0);
      if (name == "denominator") return Value::Int(1);
      break;
    case Kind::kFloat:
      if (name == "real") return value;
      if (name == "imag") return Value::Float(0);
      break;
    case Kind::kCycler:
      if (name == "current") {
        CyclerObject& cycler = value.as<CyclerObject>();
        return cycler.items.empty() ? Value() : cycler.items[cycler.at];
      }
      break;
    default: break;
  }
  const Builtin* method = FindMethod(value, name);
  if (method == nullptr) return std::nullopt;
  if (method->function == nullptr) {
    return Value::Undefined(run.meter(), fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, KindName(value)));
  }
  return Value::Of(Kind::kFunction, Make<FunctionObject>(run.meter(), method, value));
}

std::optional<std::int64_t> AsIndex(const Value& key) {
  if (key.IsInteger()) return key.integer();
  return std::nullopt;
}

// The bytes of the index-th character.
std::pair<std::size_t, std::size_t> CharRangeAt(const Value& string, std::size_t index) {
  const std::string_view bytes = string.text().view();
  if (string.chars() == bytes.size()) return {index, index + 1};
  std::size_t at = 0;
  for (; index > 0; --index) at += CharLength(bytes, at);
  return {at, at + CharLength(bytes, at)};
}

Value CharacterAt(Run& run, const Value& string, std::size_t index) {
  run.meter().Work(string.text().size());
  const auto [begin, end] = CharRangeAt(string, index);
  TextBuilder builder(run.meter());
  builder.Append(string.text(), begin, end);
  return run.String(builder.Take(), string.markup());
}

Value ItemAt(Run& run, const Value& value, std::int64_t index) {
  const std::int64_t length = *Length(value);
  if (index < 0) index += length;
  if (index < 0 || index >= length) {
    return Value::Undefined(run.meter(), fmt::format("{} object has no element {}", KindName(value), index));
  }
  const auto at = static_cast<std::size_t>(index);
  switch (value.kind()) {
    case Kind::kString: return CharacterAt(run, value, at);
    case Kind::kBytes: return Value::Int(static_cast<unsigned char>(value.text().bytes()[at])).SetFromOutside(true);
    case Kind::kRange: return Value::Int(value.as<RangeObject>().At(index));
    default: return value.items()[at];
  }
}

struct SliceRange {
  std::int64_t start, stop, step, count;
};

// One bound of a slice, moved into [low, high] as Python does.
std::int64_t SliceBound(Run& run, const Value& part, std::int64_t length, std::int64_t low, std::int64_t high,
                        std::int64_t left_out) {
  if (part.is(Kind::kNone)) return left_out;
  if (part.is(Kind::kBigInt)) return part.big().negative() ? low : high;
  if (!part.IsInteger()) {
    if (!FailIfUndefined(run, part)) run.Fail("slice indices must be integers or None");
    return low;
  }
  std::int64_t at = part.integer();
  if (at < 0) at = at < -length ? -length - 1 : at;
  if (at < 0) at += length;
  return std::clamp(at, low, high);
}

SliceRange ResolveSlice(Run& run, std::int64_t length, const Value& start, const Value& stop, const Value& step) {
  std::int64_t by = 1;
  if (step.IsInteger()) {
    by = step.integer();
  } else if (!step.is(Kind::kNone)) {
    run.Fail("slice indices must be integers or None");
  }
  if (by == 0) run.Fail("slice step cannot be zero");
  by = std::clamp<std::int64_t>(by, -std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::max());
  if (run.failed()) return {0, 0, 1, 0};
  const bool forward = by > 0;
  const std::int64_t low = forward ? 0 : -1;
  const std::int64_t high = forward ? length : length - 1;
  const std::int64_t from = SliceBound(run, start, length, low, high, forward ? low : high);
  const std::int64_t to = SliceBound(run, stop, length, low, high, forward ? high : low);
  const std::int64_t distance = forward ? to - from : from - to;
  const std::int64_t stride = forward ? by : -by;
  return {from, to, by, distance > 0 ? (distance + stride - 1) / stride : 0};
}

Value SliceString(Run& run, const Value& string, const SliceRange& range) {
  const Text& text = string.text();
  TextBuilder builder(run.meter());
  run.meter().Work(text.size());
  if (range.count > 0 && string.chars() == text.size()) {
    const auto start = static_cast<std::size_t>(range.start);
    if (range.step == 1) builder.Append(text, start, start + static_cast<std::size_t>(range.count));
    for (std::int64_t i = 0; range.step != 1 && i < range.count && !run.failed(); ++i) {
      const auto at = static_cast<std::size_t>(range.start + i * range.step);
      builder.Append(text, at, at + 1);
    }
  } else if (range.count > 0 && run.meter().Reserve(string.chars() * sizeof(std::size_t))) {
    std::vector<std::size_t> starts;
    starts.reserve(string.chars() + 1);
    for (std::size_t at = 0; at < text.size(); at += CharLength(text.view(), at)) starts.push_back(at);
    starts.push_back(text.size());
    for (std::int64_t i = 0; i < range.count && !run.failed(); ++i) {
      const auto at = static_cast<std::size_t>(range.start + i * range.step);
      builder.Append(text, starts[at], starts[at + 1]);
    }
  }
  if (string.is(Kind::kBytes)) return Value::Of(Kind::kBytes, Make<StringObject>(run.meter(), builder.Take(), false));
  return run.String(builder.Take(), string.markup());
}

// ---- walking ----

class ListIterator final : public Iterator {
 public:
  explicit ListIterator(const Value& list) : list_(list) {}
  bool Next(Value* value) override {
    if (at_ >= list_.items().size()) return false;
    *value = list_.items()[at_++];
    return list_.object()->meter().Step();
  }
  std::optional<std::size_t> Length() const override { return list_.items().size() - at_; }

 private:
  const Value list_;
  std::size_t at_ = 0;
};

class StringIterator final : public Iterator {
 public:
  explicit StringIterator(const Value& string) : string_(string) {}
  bool Next(Value* value) override {
    const Text& text = string_.text();
    if (at_ >= text.size()) return false;
    Meter& meter = string_.object()->meter();
    const std::size_t length = CharLength(text.view(), at_);
    *value = Value::String(meter, text.view().substr(at_, length), text.TrustedAt(at_));
    at_ += length;
    ++passed_;
    return meter.Step();
  }
  std::optional<std::size_t> Length() const override { return string_.chars() - passed_; }

 private:
  const Value string_;
  std::size_t at_ = 0;
  std::size_t passed_ = 0;
};

class DictIterator final : public Iterator {
 public:
  explicit DictIterator(const Value& dict) : dict_(dict) {}
  bool Next(Value* value) override {
    const auto& entries = dict_.dict().entries();
    if (at_ >= entries.size()) return false;
    const DictObject::Entry& entry = entries[at_++];
    Meter& meter = dict_.object()->meter();
    if (dict_.is(Kind::kDictValues)) {
      *value = entry.value;
    } else if (dict_.is(Kind::kDictItems)) {
      *value = Value::Tuple(meter, {entry.key, entry.value});
    } else {
      *value = entry.key;
    }
    return meter.Step();
  }
  std::optional<std::size_t> Length() const override { return dict_.dict().size() - at_; }

 private:
  const Value dict_;
  std::size_t at_ = 0;
};

class RangeIterator final : public Iterator {
 public:
  explicit RangeIterator(const Value& range) : range_(range) {}
  bool Next(Value* value) override {
    const RangeObject& range = range_.as<RangeObject>();
    if (at_ >= range.length) return false;
    *value = Value::Int(range.At(at_++));
    return range.meter().Step();
  }
  std::optional<std::size_t> Length() const override {
    return static_cast<std::size_t>(range_.as<RangeObject>().length - at_);
  }

 private:
  const Value range_;
  std::int64_t at_ = 0;
};

class NothingIterator final : public Iterator {
 public:
  bool Next(Value*) override { return false; }
  std::optional<std::size_t> Length() const override { return 0; }
};

// Whoever walks a generator takes its items away.
class GeneratorIterator final : public Iterator {
 public:
  explicit GeneratorIterator(const Value& generator) : generator_(generator) {}
  bool Next(Value* value) override {
    GeneratorObject& generator = generator_.as<GeneratorObject>();
    DepthGuard guard(generator.meter());
    return guard.ok() && generator.iterator->Next(value);
  }

 private:
  const Value generator_;
};

class LoopIterator final : public Iterator {
 public:
  explicit LoopIterator(const Value& loop) : loop_(loop) {}
  bool Next(Value* value) override {
    LoopObject& loop = loop_.as<LoopObject>();
    if (!loop.Advance()) return false;
    *value = Value::Tuple(loop.meter(), {loop.current, loop_});
    return true;
  }

 private:
  const Value loop_;
};

}  // namespace

bool FailIfUndefined(Run& run, const Value& value) {
  if (!value.is(Kind::kUndefined)) return false;
  run.Fail(value.object() == nullptr ? "a value is undefined" : value.as<UndefinedObject>().message);
  return true;
}

bool Truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool: return value.boolean();
    case Kind::kInt: return value.integer() != 0;
    case Kind::kFloat: return value.real() != 0;
    case Kind::kLoop: return value.as<LoopObject>().Length() != 0;
    default: {
      const std::optional<std::int64_t> length = Length(value);
      return !length || *length != 0;
    }
  }
}

std::optional<std::int64_t> Length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return 0;
    case Kind::kString: return static_cast<std::int64_t>(value.chars());
    case Kind::kBytes: return static_cast<std::int64_t>(value.text().size());
    case Kind::kList:
    case Kind::kTuple: return static_cast<std::int64_t>(value.items().size());
    case Kind::kDict:
    case Kind::kDictKeys:
    case Kind::kDictValues:
    case Kind::kDictItems: return static_cast<std::int64_t>(value.dict().size());
    case Kind::kRange: return value.as<RangeObject>().length;
    case Kind::kLoop: return value.as<LoopObject>().Length();
    default: return std::nullopt;
  }
}

Value GetAttribute(Run& run, const Value& value, std::string_view name) {
  if (value.is(Kind::kUndefined) && name.starts_with("__") && name.ends_with("__")) return Value();
  if (FailIfUndefined(run, value)) return Value();
  if (std::optional<Value> member = FindMember(run, value, name)) return *member;
  if (value.is(Kind::kDict)) {
    if (const Value* found = value.dict().Find(name)) return *found;
  }
  return NoAttribute(run, value, name);
}

Value GetMember(Run& run, const Value& value, std::string_view name) {
  if (FailIfUndefined(run, value)) return Value();
  if (std::optional<Value> member = FindMember(run, value, name)) return *member;
  return NoAttribute(run, value, name);
}

Value GetItem(Run& run, const Value& value, const Value& key) {
  if (FailIfUndefined(run, value)) return Value();
  if (value.is(Kind::kDict)) {
    if (const Value* found = value.dict().Find(key)) return *found;
  } else if (const std::optional<std::int64_t> index = AsIndex(key); index && IsSliceable(value)) {
    return ItemAt(run, value, *index);
  }
  if (key.IsString()) {
    if (std::optional<Value> member = FindMember(run, value, key.text().view())) return *member;
    return NoAttribute(run, value, key.text().view());
  }
  return Value::Undefined(run.meter(), fmt::format("{} object has no element {}", KindName(value), Repr(run, key).view()));
}

bool IsSliceable(const Value& value) {
  return value.IsList() || value.IsString() || value.is(Kind::kRange) || value.is(Kind::kBytes);
}

Value GetSlice(Run& run, const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (FailIfUndefined(run, value)) return Value();
  if (!IsSliceable(value)) {
    return run.Fail(value.is(Kind::kDict) ? "unhashable type: 'slice'"
                                          : fmt::format("'{}' object is not subscriptable", KindName(value)));
  }
  const SliceRange range = ResolveSlice(run, *Length(value), start, stop, step);
  if (run.failed()) return Value();
  if (value.IsString() || value.is(Kind::kBytes)) return SliceString(run, value, range);
  if (value.is(Kind::kRange)) {
    const RangeObject& of = value.as<RangeObject>();
    return Value::Of(Kind::kRange, Make<RangeObject>(run.meter(), of.At(range.start), of.At(range.stop),
                                                     of.step * range.step, range.count));
  }
  if (!run.meter().Reserve(static_cast<std::uint64_t>(range.count) * sizeof(Value)) ||
      !run.meter().Step(1 + static_cast<std::uint64_t>(range.count) / 16)) {
    return Value();
  }
  std::vector<Value> items;
  items.reserve(static_cast<std::size_t>(range.count));
  for (std::int64_t i = 0; i < range.count; ++i) {
    items.push_back(value.items()[static_cast<std::size_t>(range.start + i * range.step)]);
  }
  return Value::List(run.meter(), std::move(items), value.kind());
}

bool IsIterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kBytes:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kDictKeys:
    case Kind::kDictValues:
    case Kind::kDictItems:
    case Kind::kRange:
    case Kind::kGenerator:
    case Kind::kLoop: return true;
    default: return false;
  }
}

std::unique_ptr<Iterator> Iterate(Run& run, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return std::make_unique<NothingIterator>();
    case Kind::kString: return std::make_unique<StringIterator>(value);
    case Kind::kList:
    case Kind::kTuple: return std::make_unique<ListIterator>(value);
    case Kind::kDict:
    case Kind::kDictKeys:
    case Kind::kDictValues:
    case Kind::kDictItems: return std::make_unique<DictIterator>(value);
    case Kind::kRange: return std::make_unique<RangeIterator>(value);
    case Kind::kGenerator: return std::make_unique<GeneratorIterator>(value);
    case Kind::kLoop: return std::make_unique<LoopIterator>(value);
    case Kind::kBytes: {
      std::vector<Value> bytes;
      for (char byte : value.text().bytes()) bytes.push_back(Value::Int(static_cast<unsigned char>(byte)));
      return std::make_unique<ListIterator>(run.List(std::move(bytes)));
    }
    default:
      run.Fail(fmt::format("'{}' object is not iterable", KindName(value)));
      return nullptr;
  }
}

std::vector<Value> Collect(Run& run, Iterator& iterator) {
  std::vector<Value> items;
  if (const std::optional<std::size_t> length = iterator.Length()) {
    if (!run.meter().Reserve(*length * sizeof(Value))) return items;
    items.reserve(*length);
  }
  Value item;
  while (!run.failed() && iterator.Next(&item)) {
    items.push_back(std::move(item));
    if ((items.size() & 1023) == 0) run.meter().Reserve(items.size() * sizeof(Value));
  }
  return items;
}

std::vector<Value> Collect(Run& run, const Value& value) {
  const std::unique_ptr<Iterator> iterator = Iterate(run, value);
  return iterator == nullptr ? std::vector<Value>() : Collect(run, *iterator);
}

Value MakeGenerator(Run& run, std::unique_ptr<Iterator> iterator, bool reversed) {
  return Value::Of(Kind::kGenerator, Make<GeneratorObject>(run.meter(), std::move(iterator), reversed));
}

}  // namespace skein::text::templates
