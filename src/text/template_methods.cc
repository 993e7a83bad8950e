// SPDX-License-Identifier: Apache-2.0
//
// Methods of lists, dicts, loops and the like, and finding the methods of a value. Those that would change a list or
// dict are known, so that the error can say why they are refused.
#include <cmath>

#include <fmt/format.h>

#include "text/template_filter_tables.h"
#include "text/template_operators.h"

namespace skein::text::templates {
namespace {

Value ListIndex(Run& run, const Value& self, Bound& arguments) {
  for (std::size_t i = 0; i < self.items().size(); ++i) {
    if (Equal(run.meter(), self.items()[i], arguments[0])) return Value::Int(static_cast<std::int64_t>(i));
  }
  return run.Fail("value is not in list");
}

Value ListCount(Run& run, const Value& self, Bound& arguments) {
  std::int64_t count = 0;
  for (const Value& item : self.items()) count += Equal(run.meter(), item, arguments[0]) ? 1 : 0;
  return Value::Int(count);
}

Value ListCopy(Run&, const Value& self, Bound&) { return self; }  // lists never change

template <Kind kKind>
Value View(Run& run, const Value& self, Bound&) {
  return Value::Of(kKind, Make<ViewObject>(run.meter(), Ref<DictObject>(&self.as<DictObject>())));
}

Value DictGet(Run& run, const Value& self, Bound& arguments) {
  if (!Hash(arguments[0])) return run.Fail(fmt::format("unhashable type: '{}'", KindName(arguments[0])));
  if (const Value* found = self.dict().Find(arguments[0])) return *found;
  return arguments.given[1] ? arguments[1] : Value::None();
}

Value LoopCycle(Run& run, const Value& self, Bound& arguments) {
  const std::vector<Value>& values = arguments.rest.positional;
  if (values.empty()) return run.Fail("no items for cycling given");
  const LoopObject& loop = self.as<LoopObject>();
  return values[static_cast<std::size_t>(loop.index0) % values.size()];
}

Value LoopChanged(Run& run, const Value& self, Bound& arguments) {
  LoopObject& loop = self.as<LoopObject>();
  const Value now = Value::Tuple(run.meter(), std::move(arguments.rest.positional));
  const bool changed = !loop.changed_asked || !Equal(run.meter(), loop.changed_last, now);
  loop.changed_asked = true;
  if (changed) loop.changed_last = now;
  return Value::Bool(changed);
}

Value CyclerNext(Run&, const Value& self, Bound&) {
  CyclerObject& cycler = self.as<CyclerObject>();
  if (cycler.items.empty()) return Value();
  const Value now = cycler.items[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.items.size();
  return now;
}

Value CyclerReset(Run&, const Value& self, Bound&) {
  self.as<CyclerObject>().at = 0;
  return Value::None();
}

Value IsWholeFloat(Run&, const Value& self, Bound&) {
  return Value::Bool(std::isfinite(self.real()) && std::trunc(self.real()) == self.real());
}

Value BitLength(Run& run, const Value& self, Bound&) {
  return run.failed() ? Value() : Value::Int(static_cast<std::int64_t>(ToBig(self).Bits()));
}

Value Itself(Run& run, const Value& self, Bound&) {
  return self.is(Kind::kFloat) ? self : Arithmetic(run, Op::kAdd, self, Value::Int(0));
}

Value RangeCount(Run& run, const Value& self, Bound& arguments) {
  return Value::Int(CompareValues(run, Op::kIn, arguments[0], self) ? 1 : 0);
}

Value RangeIndex(Run& run, const Value& self, Bound& arguments) {
  const std::vector<Value> items = Collect(run, self);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (Equal(run.meter(), items[i], arguments[0])) return Value::Int(static_cast<std::int64_t>(i));
  }
  return run.Fail("value is not in range");
}

Value Decode(Run& run, const Value& self, Bound&) { return run.String(self.text()); }

// Refused: no function.
constexpr Builtin kListMethods[] = {
    {"index", ListIndex, "/,value", 1},
    {"count", ListCount, "/,value", 1},
    {"copy", ListCopy},
    {"append", nullptr}, {"clear", nullptr}, {"extend", nullptr}, {"insert", nullptr},
    {"pop", nullptr}, {"remove", nullptr}, {"reverse", nullptr}, {"sort", nullptr},
};
constexpr Builtin kTupleMethods[] = {
    {"index", ListIndex, "/,value", 1},
    {"count", ListCount, "/,value", 1},
};
constexpr Builtin kDictMethods[] = {
    {"keys", View<Kind::kDictKeys>},
    {"values", View<Kind::kDictValues>},
    {"items", View<Kind::kDictItems>},
    {"get", DictGet, "/,key,default", 1},
    {"copy", ListCopy},
    {"clear", nullptr}, {"pop", nullptr}, {"popitem", nullptr}, {"setdefault", nullptr}, {"update", nullptr},
};
constexpr Builtin kLoopMethods[] = {
    {"cycle", LoopCycle, "..."},
    {"changed", LoopChanged, "..."},
};
constexpr Builtin kCyclerMethods[] = {
    {"next", CyclerNext},
    {"reset", CyclerReset},
};
constexpr Builtin kFloatMethods[] = {
    {"is_integer", IsWholeFloat},
    {"conjugate", Itself},
};
constexpr Builtin kIntMethods[] = {
    {"bit_length", BitLength},
    {"conjugate", Itself},
};
constexpr Builtin kRangeMethods[] = {
    {"count", RangeCount, "/,value", 1},
    {"index", RangeIndex, "/,value", 1},
};
constexpr Builtin kBytesMethods[] = {
    {"decode", Decode, "encoding,errors"},
};

}  // namespace

const Builtin* FindMethod(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Kind::kString: {
      const Builtin* found = FindIn(StringMethods(), name);
      return found != nullptr ? found : FindIn(StringFacts(), name);
    }
    case Kind::kList: return FindIn(kListMethods, name);
    case Kind::kTuple: return FindIn(kTupleMethods, name);
    case Kind::kDict: return FindIn(kDictMethods, name);
    case Kind::kLoop: return FindIn(kLoopMethods, name);
    case Kind::kCycler: return FindIn(kCyclerMethods, name);
    case Kind::kFloat: return FindIn(kFloatMethods, name);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kBigInt: return FindIn(kIntMethods, name);
    case Kind::kRange: return FindIn(kRangeMethods, name);
    case Kind::kBytes: return FindIn(kBytesMethods, name);
    default: return nullptr;
  }
}

}  // namespace skein::text::templates
