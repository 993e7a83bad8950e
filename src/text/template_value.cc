// SPDX-License-Identifier: Apache-2.0
//
// Objects' lives, dict look-ups, equality and hashes; see template_value.h.
#include "text/template_value.h"

#include <cmath>

#include <fmt/format.h>

#include "base/check.h"

namespace skein::text::templates {
namespace {

constexpr std::size_t kIndexFrom = 9;  // fewer entries are found by looking at each

std::uint64_t Mix(std::uint64_t h, std::uint64_t v) { return (h ^ v) * 0x9E3779B97F4A7C15ull + (h >> 29); }

bool FitsInt64(double v) { return v >= -9223372036854775808.0 && v < 9223372036854775808.0; }

bool EqualNumbers(const Value& a, const Value& b) {
  if (a.IsInteger() && b.IsInteger()) return a.integer() == b.integer();
  if (a.is(Kind::kBigInt) || b.is(Kind::kBigInt)) {
    if (a.is(Kind::kBigInt) && b.is(Kind::kBigInt)) return a.big() == b.big();
    const Value& real = a.is(Kind::kFloat) ? a : b;
    const Value& big = a.is(Kind::kBigInt) ? a : b;
    return real.is(Kind::kFloat) && std::isfinite(real.real()) && BigInt::FromDouble(real.real()) == big.big() &&
           std::trunc(real.real()) == real.real();
  }
  if (a.is(Kind::kFloat) && b.is(Kind::kFloat)) return a.real() == b.real();
  const double real = a.is(Kind::kFloat) ? a.real() : b.real();
  const std::int64_t integer = a.is(Kind::kFloat) ? b.integer() : a.integer();
  return FitsInt64(real) && std::trunc(real) == real && static_cast<std::int64_t>(real) == integer;
}

bool EqualDicts(Meter& meter, const DictObject& a, const DictObject& b) {
  if (a.size() != b.size()) return false;
  for (const DictObject::Entry& entry : a.entries()) {
    const Value* other = b.Find(entry.key);
    if (other == nullptr || !Equal(meter, entry.value, *other)) return false;
  }
  return true;
}

bool EqualRanges(const RangeObject& a, const RangeObject& b) {
  if (a.length != b.length) return false;
  if (a.length == 0) return true;
  return a.start == b.start && (a.length == 1 || a.step == b.step);
}

}  // namespace

Object::Object(Meter& meter, std::size_t bytes) : meter_(&meter), bytes_(bytes) {
  meter_->AddBytes(bytes_);
  meter_->Reserve(0);
}

Object::~Object() { meter_->RemoveBytes(bytes_); }

void Object::Charge(std::size_t bytes) {
  bytes_ += bytes;
  meter_->AddBytes(bytes);
  meter_->Reserve(0);
}

CyclicObject::CyclicObject(Meter& meter, std::size_t bytes) : Object(meter, bytes), next_(meter.cyclic_) {
  if (next_ != nullptr) next_->previous_ = this;
  meter.cyclic_ = this;
}

CyclicObject::~CyclicObject() {
  (previous_ != nullptr ? previous_->next_ : meter().cyclic_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

StringObject::StringObject(Meter& meter, Text value, bool is_markup)
    : Object(meter, sizeof(*this) + value.MemoryBytes()),
      text(std::move(value)),
      markup(is_markup) {}

std::size_t StringObject::Chars() const {
  if (chars_ == kNotCounted) {
    meter().Work(text.size() / 8);
    chars_ = CountChars(text.view());
  }
  return chars_;
}

ListObject::ListObject(Meter& meter, std::vector<Value> v)
    : Object(meter, sizeof(*this) + v.capacity() * sizeof(Value)), items(std::move(v)) {}

Value Value::String(Meter& meter, Text text, bool markup) {
  return Of(Kind::kString, Make<StringObject>(meter, std::move(text), markup));
}

Value Value::Big(Meter& meter, BigInt value) {
  if (const std::optional<std::int64_t> small = value.ToInt64()) return Int(*small);
  return Of(Kind::kBigInt, Make<BigIntObject>(meter, std::move(value)));
}

Value Value::List(Meter& meter, std::vector<Value> items, Kind kind) {
  return Of(kind, Make<ListObject>(meter, std::move(items)));
}

Value Value::Undefined(Meter& meter, std::string message) {
  return Of(Kind::kUndefined, Make<UndefinedObject>(meter, std::move(message)));
}

const BigInt& Value::big() const { return as<BigIntObject>().value; }
const Text& Value::text() const { return as<StringObject>().text; }
bool Value::markup() const { return as<StringObject>().markup; }
std::size_t Value::chars() const { return as<StringObject>().Chars(); }
const std::vector<Value>& Value::items() const { return as<ListObject>().items; }

const DictObject& Value::dict() const {
  switch (kind_) {
    case Kind::kDict: return as<DictObject>();
    case Kind::kNamespace: return *as<NamespaceObject>().values;
    default: return *as<ViewObject>().dict;
  }
}

const DictObject::Entry* DictObject::FindHashed(std::uint64_t hash, const Value& key) const {
  if (entries_.size() < kIndexFrom) {
    for (const Entry& entry : entries_) {
      if (Equal(meter(), entry.key, key)) return &entry;
    }
    return nullptr;
  }
  for (auto [place, end] = index_.equal_range(hash); place != end; ++place) {
    if (Equal(meter(), entries_[place->second].key, key)) return &entries_[place->second];
  }
  return nullptr;
}

const Value* DictObject::Find(const Value& key) const {
  const std::optional<std::uint64_t> hash = Hash(key);
  const Entry* entry = hash ? FindHashed(*hash, key) : nullptr;
  return entry == nullptr ? nullptr : &entry->value;
}

const Value* DictObject::Find(std::string_view key) const {
  if (entries_.size() >= kIndexFrom) return Find(Value::String(meter(), key));
  for (const Entry& entry : entries_) {
    if (entry.key.IsString() && entry.key.text().view() == key) return &entry.value;
  }
  return nullptr;
}

void DictObject::Set(const Value& key, Value value) {
  const std::optional<std::uint64_t> hash = Hash(key);
  if (!hash) return meter().Error(fmt::format("unhashable type: '{}'", KindName(key)));
  if (const Entry* entry = FindHashed(*hash, key)) {
    const_cast<Entry*>(entry)->value = std::move(value);
    return;
  }
  Charge(sizeof(Entry) + 48);
  if (meter().failed()) return;
  entries_.push_back({key, std::move(value)});
  if (entries_.size() == kIndexFrom) {
    for (std::uint32_t i = 0; i < kIndexFrom; ++i) index_.emplace(*Hash(entries_[i].key), i);
  } else if (entries_.size() > kIndexFrom) {
    index_.emplace(*hash, static_cast<std::uint32_t>(entries_.size() - 1));
  }
}

bool Equal(Meter& meter, const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) return EqualNumbers(a, b);
  if (a.kind() != b.kind()) return false;
  DepthGuard guard(meter);
  if (!guard.ok() || !meter.Step()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return true;
    case Kind::kString:
    case Kind::kBytes: return a.text().bytes() == b.text().bytes();
    case Kind::kList:
    case Kind::kTuple: {
      if (a.object() == b.object()) return true;
      if (a.items().size() != b.items().size()) return false;
      for (std::size_t i = 0; i < a.items().size(); ++i) {
        if (!Equal(meter, a.items()[i], b.items()[i])) return false;
      }
      return true;
    }
    case Kind::kDict: return EqualDicts(meter, a.dict(), b.dict());
    case Kind::kRange: return EqualRanges(a.as<RangeObject>(), b.as<RangeObject>());
    case Kind::kFunction:
      return a.as<FunctionObject>().builtin == b.as<FunctionObject>().builtin &&
             a.as<FunctionObject>().self.object() == b.as<FunctionObject>().self.object();
    case Kind::kDictKeys:
    case Kind::kDictItems: return EqualDicts(meter, a.dict(), b.dict());
    default: return a.object() == b.object();
  }
}

std::optional<std::uint64_t> Hash(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return 1;
    case Kind::kNone: return 2;
    case Kind::kBool:
    case Kind::kInt: return Mix(3, static_cast<std::uint64_t>(value.integer()));
    case Kind::kFloat: {
      const double v = value.real();
      if (FitsInt64(v) && std::trunc(v) == v) return Mix(3, static_cast<std::uint64_t>(static_cast<std::int64_t>(v)));
      return std::hash<double>()(v);
    }
    case Kind::kBigInt: return std::hash<double>()(value.big().ToDouble());
    case Kind::kString:
    case Kind::kBytes: return std::hash<std::string_view>()(value.text().view());
    case Kind::kTuple: {
      std::uint64_t hash = 4;
      DepthGuard guard(value.object()->meter());
      if (!guard.ok()) return std::nullopt;
      for (const Value& item : value.items()) {
        const std::optional<std::uint64_t> part = Hash(item);
        if (!part) return std::nullopt;
        hash = Mix(hash, *part);
      }
      return hash;
    }
    case Kind::kList:
    case Kind::kDict:
    case Kind::kDictKeys:
    case Kind::kDictItems: return std::nullopt;
    case Kind::kRange: return Mix(5, static_cast<std::uint64_t>(value.as<RangeObject>().length));
    case Kind::kFunction: return 6;
    default: return reinterpret_cast<std::uintptr_t>(value.object());
  }
}

std::string_view KindName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt:
    case Kind::kBigInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kString: return value.markup() ? "Markup" : "str";
    case Kind::kBytes: return "bytes";
    case Kind::kList: return "list";
    case Kind::kTuple: return "tuple";
    case Kind::kDict: return "dict";
    case Kind::kDictKeys: return "dict_keys";
    case Kind::kDictValues: return "dict_values";
    case Kind::kDictItems: return "dict_items";
    case Kind::kRange: return "range";
    case Kind::kNamespace: return "Namespace";
    case Kind::kGenerator: return "generator";
    case Kind::kFunction: return "function";
    case Kind::kMacro: return "Macro";
    case Kind::kLoop: return "LoopContext";
    case Kind::kCycler: return "Cycler";
    case Kind::kJoiner: return "Joiner";
    case Kind::kSelf: return "TemplateReference";
  }
  return "object";
}

}  // namespace skein::text::templates
