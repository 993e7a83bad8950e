// SPDX-License-Identifier: Apache-2.0
//
// The built-in tests (`x is odd`). Each gives a boolean.
#include <array>

#include "text/template_builtin.h"
#include "text/template_filter_tables.h"
#include "text/template_operators.h"
#include "text/template_print.h"
#include "text/template_strings.h"

namespace skein::text::templates {
namespace {

bool IsMember(Run&, const Value& self, Kind kind) { return self.is(kind); }

template <Kind kKind>
Value IsKind(Run& run, const Value& self, Bound&) {
  return Value::Bool(IsMember(run, self, kKind));
}

Value Defined(Run&, const Value& self, Bound&) { return Value::Bool(!self.is(Kind::kUndefined)); }
Value IsTrue(Run&, const Value& self, Bound&) { return Value::Bool(self.is(Kind::kBool) && self.boolean()); }
Value IsFalse(Run&, const Value& self, Bound&) { return Value::Bool(self.is(Kind::kBool) && !self.boolean()); }
Value IsIntegerTest(Run&, const Value& self, Bound&) {
  return Value::Bool(self.is(Kind::kInt) || self.is(Kind::kBigInt));
}
Value IsNumberTest(Run&, const Value& self, Bound&) { return Value::Bool(self.IsNumber()); }
Value IsIterableTest(Run&, const Value& self, Bound&) { return Value::Bool(IsIterable(self)); }

Value IsSequence(Run&, const Value& self, Bound&) {
  return Value::Bool(self.IsList() || self.IsString() || self.is(Kind::kDict) || self.is(Kind::kRange) ||
                     self.is(Kind::kBytes) || self.is(Kind::kUndefined));
}

Value IsCallable(Run&, const Value& self, Bound&) {
  switch (self.kind()) {
    case Kind::kUndefined:  // calling one fails, but it has the method
    case Kind::kFunction:
    case Kind::kMacro:
    case Kind::kLoop:
    case Kind::kJoiner: return Value::Bool(true);
    default: return Value::Bool(false);
  }
}

Value SameAs(Run& run, const Value& self, Bound& arguments) {
  const Value& other = arguments[0];
  if (self.kind() != other.kind()) return Value::Bool(false);
  const bool scalar = self.object() == nullptr || self.is(Kind::kBigInt) || self.is(Kind::kString);
  return Value::Bool(scalar ? Equal(run.meter(), self, other) : self.object() == other.object());
}

Value IsEscaped(Run&, const Value& self, Bound&) { return Value::Bool(self.IsString() && self.markup()); }

Value HasRemainder(Run& run, const Value& self, const Value& divisor, std::int64_t rest) {
  const Value remainder = Arithmetic(run, Op::kModulo, self, divisor);
  return Value::Bool(!run.failed() && Equal(run.meter(), remainder, Value::Int(rest)));
}
Value IsOdd(Run& run, const Value& self, Bound&) { return HasRemainder(run, self, Value::Int(2), 1); }
Value IsEven(Run& run, const Value& self, Bound&) { return HasRemainder(run, self, Value::Int(2), 0); }
Value DivisibleBy(Run& run, const Value& self, Bound& arguments) { return HasRemainder(run, self, arguments[0], 0); }

Value IsLowerTest(Run& run, const Value& self, Bound&) { return Value::Bool(IsLowerText(ToText(run, self).view())); }
Value IsUpperTest(Run& run, const Value& self, Bound&) { return Value::Bool(IsUpperText(ToText(run, self).view())); }

Value IsFilter(Run& run, const Value& self, Bound&) {
  if (!Hash(self)) return run.Fail("unhashable type");
  return Value::Bool(self.IsString() && FindFilter(self.text().view()) != nullptr);
}
Value IsTest(Run& run, const Value& self, Bound&) {
  if (!Hash(self)) return run.Fail("unhashable type");
  return Value::Bool(self.IsString() && FindTest(self.text().view()) != nullptr);
}

template <Op kOp>
Value Compared(Run& run, const Value& self, Bound& arguments) {
  return Value::Bool(CompareValues(run, kOp, self, arguments[0]));
}

constexpr Builtin kTests[] = {
    {"defined", Defined},
    {"undefined", IsKind<Kind::kUndefined>},
    {"none", IsKind<Kind::kNone>},
    {"boolean", IsKind<Kind::kBool>},
    {"true", IsTrue},
    {"false", IsFalse},
    {"integer", IsIntegerTest},
    {"float", IsKind<Kind::kFloat>},
    {"number", IsNumberTest},
    {"string", IsKind<Kind::kString>},
    {"mapping", IsKind<Kind::kDict>},
    {"iterable", IsIterableTest},
    {"sequence", IsSequence},
    {"callable", IsCallable},
    {"sameas", SameAs, "other", 1},
    {"escaped", IsEscaped},
    {"odd", IsOdd},
    {"even", IsEven},
    {"divisibleby", DivisibleBy, "num", 1},
    {"lower", IsLowerTest},
    {"upper", IsUpperTest},
    {"filter", IsFilter},
    {"test", IsTest},
    {"in", Compared<Op::kIn>, "seq", 1},
    {"==", Compared<Op::kEqual>, "/,other", 1},
    {"eq", Compared<Op::kEqual>, "/,other", 1},
    {"equalto", Compared<Op::kEqual>, "/,other", 1},
    {"!=", Compared<Op::kNotEqual>, "/,other", 1},
    {"ne", Compared<Op::kNotEqual>, "/,other", 1},
    {">", Compared<Op::kGreater>, "/,other", 1},
    {"gt", Compared<Op::kGreater>, "/,other", 1},
    {"greaterthan", Compared<Op::kGreater>, "/,other", 1},
    {">=", Compared<Op::kGreaterEqual>, "/,other", 1},
    {"ge", Compared<Op::kGreaterEqual>, "/,other", 1},
    {"<", Compared<Op::kLess>, "/,other", 1},
    {"lt", Compared<Op::kLess>, "/,other", 1},
    {"lessthan", Compared<Op::kLess>, "/,other", 1},
    {"<=", Compared<Op::kLessEqual>, "/,other", 1},
    {"le", Compared<Op::kLessEqual>, "/,other", 1},
};

}  // namespace

const Builtin* FindTest(std::string_view name) { return FindIn(kTests, name); }

}  // namespace skein::text::templates
