// SPDX-License-Identifier: Apache-2.0
//
// Value: what an expression of a chat template evaluates to, and the objects behind the larger kinds. There is
// nothing else a template can hold, so there is no attribute of the host's to reach for.
//
// Strings, lists and dicts never change after they are built; only namespaces, variables and loops do, and those are
// CyclicObjects, whose references the Meter cuts at the end. Objects are counted by plain (not atomic) reference
// counts: a value never leaves the rendering, and the thread, that made it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/template_bigint.h"
#include "text/template_meter.h"
#include "text/template_text.h"

namespace skein::text::templates {

class Object {
 public:
  // `bytes` are counted as alive as long as the object is.
  Object(Meter& meter, std::size_t bytes);
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object();

  Meter& meter() const { return *meter_; }
  void AddRef() { ++refs_; }
  void Release() {
    if (--refs_ == 0) meter_->Dispose(this);
  }

 protected:
  void Charge(std::size_t bytes);

 private:
  Meter* meter_;
  std::size_t bytes_;
  std::uint32_t refs_ = 0;
};

// An object that may come to refer to itself; kept in its meter's list.
class CyclicObject : public Object {
 public:
  CyclicObject(Meter& meter, std::size_t bytes);
  ~CyclicObject() override;
  virtual void ClearReferences() = 0;

 private:
  friend class Meter;
  CyclicObject* previous_ = nullptr;
  CyclicObject* next_ = nullptr;
};

// A counted reference.
template <typename T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}  // NOLINT: implicit on purpose
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->AddRef();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <typename U>
  Ref(const Ref<U>& other) : Ref(other.get()) {}  // NOLINT: implicit on purpose, to a base
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->Release();
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

template <typename T, typename... Args>
Ref<T> Make(Meter& meter, Args&&... args) {
  return Ref<T>(new T(meter, std::forward<Args>(args)...));
}

enum class Kind : std::uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kBigInt,  // what does not fit kInt, and nothing that does
  kString,
  kBytes,
  kList,
  kTuple,
  kDict,
  kDictKeys,
  kDictValues,
  kDictItems,
  kRange,
  kNamespace,
  kGenerator,
  kFunction,  // a built-in function or a method with its value
  kMacro,
  kLoop,
  kCycler,
  kJoiner,
  kSelf,      // the template itself: its blocks as functions
};

struct StringObject;
struct ListObject;
class DictObject;
struct UndefinedObject;

class Value {
 public:
  Value() = default;  // an undefined without a name
  Value(const Value& other) : kind_(other.kind_), outside_(other.outside_), payload_(other.payload_) { AddRef(); }
  Value(Value&& other) noexcept : kind_(other.kind_), outside_(other.outside_), payload_(other.payload_) {
    other.kind_ = Kind::kNone;
  }
  Value& operator=(Value other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(outside_, other.outside_);
    std::swap(payload_, other.payload_);
    return *this;
  }
  ~Value() {
    if (Object* object = this->object()) object->Release();
  }

  static Value None() { return Scalar(Kind::kNone); }
  static Value Bool(bool value) {
    Value v = Scalar(Kind::kBool);
    v.payload_.integer = value ? 1 : 0;
    return v;
  }
  static Value Int(std::int64_t value) {
    Value v = Scalar(Kind::kInt);
    v.payload_.integer = value;
    return v;
  }
  static Value Float(double value) {
    Value v = Scalar(Kind::kFloat);
    v.payload_.real = value;
    return v;
  }
  // Requires: `kind` is a kind with an object, and `object` is of its type.
  static Value Of(Kind kind, Object* object) {
    Value v = Scalar(kind);
    v.payload_.object = object;
    v.AddRef();
    return v;
  }
  template <typename T>
  static Value Of(Kind kind, const Ref<T>& object) {
    return Of(kind, static_cast<Object*>(object.get()));
  }
  static Value String(Meter& meter, Text text, bool markup = false);
  static Value String(Meter& meter, std::string_view bytes, bool trusted = kTrusted) {
    return String(meter, Text(std::string(bytes), trusted));
  }
  static Value Big(Meter& meter, BigInt value);  // kInt when it fits
  static Value List(Meter& meter, std::vector<Value> items, Kind kind = Kind::kList);
  static Value Tuple(Meter& meter, std::vector<Value> items) { return List(meter, std::move(items), Kind::kTuple); }
  // An undefined whose use fails with `message`.
  static Value Undefined(Meter& meter, std::string message);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool IsString() const { return kind_ == Kind::kString; }
  bool IsList() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool IsInteger() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }  // fits 64 bits, as Python counts bool
  bool IsNumber() const { return IsInteger() || kind_ == Kind::kFloat || kind_ == Kind::kBigInt; }

  // Numbers and booleans from outside print as untrusted text.
  bool from_outside() const { return outside_; }
  Value& SetFromOutside(bool outside) {
    outside_ = outside;
    return *this;
  }

  // Requires (each): the kind that the name says.
  bool boolean() const { return payload_.integer != 0; }
  std::int64_t integer() const { return payload_.integer; }
  double real() const { return payload_.real; }
  const BigInt& big() const;
  const Text& text() const;        // kString and kBytes
  bool markup() const;             // kString: HTML that is not escaped again
  std::size_t chars() const;       // kString: characters
  const std::vector<Value>& items() const;  // kList and kTuple
  const DictObject& dict() const;  // kDict, kNamespace's values, and the three views

  Object* object() const {
    return kind_ >= Kind::kBigInt || kind_ == Kind::kUndefined ? payload_.object : nullptr;
  }
  template <typename T>
  T& as() const {
    return static_cast<T&>(*payload_.object);
  }

 private:
  static Value Scalar(Kind kind) {
    Value v;
    v.kind_ = kind;
    return v;
  }
  void AddRef() {
    if (Object* held = object()) held->AddRef();
  }

  Kind kind_ = Kind::kUndefined;
  bool outside_ = false;
  union Payload {
    Object* object = nullptr;
    std::int64_t integer;
    double real;
  } payload_;
};

// ---- the objects behind the kinds ----

struct StringObject final : Object {
  StringObject(Meter& meter, Text value, bool is_markup);
  std::size_t Chars() const;  // counted when first asked for
  const Text text;
  const bool markup;

 private:
  static constexpr std::size_t kNotCounted = ~std::size_t{0};
  mutable std::size_t chars_ = kNotCounted;
};

struct BigIntObject final : Object {
  BigIntObject(Meter& meter, BigInt v) : Object(meter, sizeof(*this) + 64), value(std::move(v)) {}
  const BigInt value;
};

struct ListObject final : Object {
  ListObject(Meter& meter, std::vector<Value> v);
  const std::vector<Value> items;
  bool group = false;  // a pair of groupby, with .grouper and .list
};

struct UndefinedObject final : Object {
  UndefinedObject(Meter& meter, std::string m) : Object(meter, sizeof(*this) + m.size()), message(std::move(m)) {}
  const std::string message;
};

// Keys in the order in which they came. Filled by its maker, then left alone.
class DictObject final : public Object {
 public:
  struct Entry {
    Value key;
    Value value;
  };
  explicit DictObject(Meter& meter) : Object(meter, sizeof(*this)) {}

  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  const Value* Find(const Value& key) const;  // nothing when absent or not hashable
  const Value* Find(std::string_view key) const;
  // Adds or replaces; fails the meter when the key is not hashable.
  void Set(const Value& key, Value value);
  void Set(std::string_view key, Value value) { Set(Value::String(meter(), key), std::move(value)); }
  void Clear() {
    entries_.clear();
    index_.clear();
  }

 private:
  const Entry* FindHashed(std::uint64_t hash, const Value& key) const;
  std::vector<Entry> entries_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> index_;  // hash to place; only from kIndexFrom entries on
};

// The keys, values or items of a dict; the kind says which.
struct ViewObject final : Object {
  ViewObject(Meter& meter, Ref<DictObject> d) : Object(meter, sizeof(*this)), dict(std::move(d)) {}
  const Ref<DictObject> dict;
};

struct RangeObject final : Object {
  RangeObject(Meter& meter, std::int64_t first, std::int64_t end, std::int64_t by, std::int64_t count)
      : Object(meter, sizeof(*this)), start(first), stop(end), step(by), length(count) {}
  const std::int64_t start, stop, step, length;
  std::int64_t At(std::int64_t index) const { return start + index * step; }
};

struct NamespaceObject final : CyclicObject {
  explicit NamespaceObject(Meter& meter)
      : CyclicObject(meter, sizeof(*this)), values(Make<DictObject>(meter)) {}
  void ClearReferences() override { values->Clear(); }
  const Ref<DictObject> values;
};

// Values one after the other. Next is false at the end and when the meter has failed.
class Iterator {
 public:
  virtual ~Iterator() = default;
  virtual bool Next(Value* value) = 0;
  // How many are left, where that is known without walking.
  virtual std::optional<std::size_t> Length() const { return std::nullopt; }
};

struct GeneratorObject final : Object {
  GeneratorObject(Meter& meter, std::unique_ptr<Iterator> i, bool sized_list)
      : Object(meter, sizeof(*this) + 64), iterator(std::move(i)), reversed(sized_list) {}
  const std::unique_ptr<Iterator> iterator;
  const bool reversed;  // made by the filter `reverse`
};

// Positional and named arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Run;
struct Builtin;

struct FunctionObject final : Object {
  FunctionObject(Meter& meter, const Builtin* b, Value s)
      : Object(meter, sizeof(*this)), builtin(b), self(std::move(s)) {}
  const Builtin* const builtin;
  const Value self;  // of a method; undefined for a function
};

struct CyclerObject final : CyclicObject {
  CyclerObject(Meter& meter, std::vector<Value> v)
      : CyclicObject(meter, sizeof(*this) + v.capacity() * sizeof(Value)), items(std::move(v)) {}
  void ClearReferences() override { items.clear(); }
  std::vector<Value> items;
  std::size_t at = 0;
};

struct JoinerObject final : Object {
  JoinerObject(Meter& meter, Value s) : Object(meter, sizeof(*this)), separator(std::move(s)) {}
  const Value separator;
  bool used = false;
};

// ---- equality and hashing, as Python has them ----

bool Equal(Meter& meter, const Value& a, const Value& b);
// Nothing when a value of this kind cannot be a key.
std::optional<std::uint64_t> Hash(const Value& value);
// "int", "str", …: the kind's name in messages.
std::string_view KindName(const Value& value);

}  // namespace skein::text::templates
