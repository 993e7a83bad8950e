// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic and comparison of values; see template_operators.h. Integers grow as Python's do, up to a limit.
#include "text/template_operators.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "text/template_format.h"
#include "text/template_print.h"

namespace skein::text::templates {
namespace {

constexpr std::uint64_t kBitsMost = 256;  // of an integer that a template computes

std::string_view OpName(Op op) {
  switch (op) {
    case Op::kAdd: return "+";
    case Op::kSubtract: return "-";
    case Op::kMultiply: return "*";
    case Op::kDivide: return "/";
    case Op::kFloorDivide: return "//";
    case Op::kModulo: return "%";
    case Op::kPower: return "** or pow()";
    case Op::kLess: return "<";
    case Op::kLessEqual: return "<=";
    case Op::kGreater: return ">";
    case Op::kGreaterEqual: return ">=";
    default: return "in";
  }
}

Value Unsupported(Run& run, Op op, const Value& a, const Value& b) {
  if (FailIfUndefined(run, a) || FailIfUndefined(run, b)) return Value();
  return run.Fail(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", OpName(op), KindName(a), KindName(b)));
}

BigInt FloorDivide(const BigInt& a, const BigInt& b) {
  BigInt quotient;
  BigInt rest;
  BigInt::Divide(a, b, &quotient, &rest);
  return quotient;
}

Value TooLarge(Run& run) {
  run.meter().Limit(fmt::format("template computes an integer of more than {} bits", kBitsMost));
  return Value();
}

// The result of a computation, unless it is larger than any template has a use for.
Value Computed(Run& run, BigInt value) {
  if (value.Bits() <= kBitsMost) return Value::Big(run.meter(), std::move(value));
  return TooLarge(run);
}

Value BigPower(Run& run, const BigInt& base, const BigInt& exponent) {
  if (exponent.negative()) {
    if (base.zero()) return run.Fail("0.0 cannot be raised to a negative power");
    return Value::Float(std::pow(base.ToDouble(), exponent.ToDouble()));
  }
  if (base.Bits() <= 1) {  // -1, 0 and 1 never grow
    if (exponent.zero()) return Value::Int(1);
    return Value::Big(run.meter(), base.negative() && !exponent.odd() ? -base : base);
  }
  const std::uint64_t power = exponent.Bits() > 32 ? kBitsMost + 1 : static_cast<std::uint64_t>(*exponent.ToInt64());
  if (power > kBitsMost || (base.Bits() - 1) * power > kBitsMost) return TooLarge(run);
  return Computed(run, BigInt::Power(base, static_cast<unsigned>(power)));
}

Value BigArithmetic(Run& run, Op op, const Value& x, const Value& y) {
  const BigInt a = ToBig(x);
  const BigInt b = ToBig(y);
  if (a.Bits() > 2 * kBitsMost || b.Bits() > 2 * kBitsMost) return TooLarge(run);
  switch (op) {
    case Op::kAdd: return Computed(run, a + b);
    case Op::kSubtract: return Computed(run, a - b);
    case Op::kMultiply: return Computed(run, a * b);
    case Op::kFloorDivide: return Computed(run, FloorDivide(a, b));
    case Op::kModulo: return Computed(run, a - FloorDivide(a, b) * b);
    default: return BigPower(run, a, b);
  }
}

Value IntegerArithmetic(Run& run, Op op, const Value& x, const Value& y) {
  const bool zero = !y.is(Kind::kBigInt) && y.integer() == 0;
  if (op == Op::kDivide) {
    if (zero) return run.Fail("division by zero");
    if (x.is(Kind::kBigInt) || y.is(Kind::kBigInt)) {
      const double quotient = ToDouble(run, x) / ToDouble(run, y);
      return Value::Float(quotient);
    }
    return Value::Float(static_cast<double>(static_cast<long double>(x.integer()) / static_cast<long double>(y.integer())));
  }
  if (zero && op == Op::kFloorDivide) return run.Fail("integer division or modulo by zero");
  if (zero && op == Op::kModulo) return run.Fail("integer modulo by zero");
  if (x.is(Kind::kBigInt) || y.is(Kind::kBigInt) || op == Op::kPower) return BigArithmetic(run, op, x, y);
  const std::int64_t a = x.integer();
  const std::int64_t b = y.integer();
  std::int64_t result = 0;
  switch (op) {
    case Op::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return BigArithmetic(run, op, x, y);
      return Value::Int(result);
    case Op::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return BigArithmetic(run, op, x, y);
      return Value::Int(result);
    case Op::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return BigArithmetic(run, op, x, y);
      return Value::Int(result);
    default: break;
  }
  if (b == -1) return op == Op::kModulo ? Value::Int(0) : BigArithmetic(run, Op::kSubtract, Value::Int(0), x);
  const bool uneven = a % b != 0 && (a < 0) != (b < 0);
  if (op == Op::kFloorDivide) return Value::Int(a / b - (uneven ? 1 : 0));
  return Value::Int(a % b + (uneven ? b : 0));
}

Value FloatModulo(double a, double b, bool quotient) {
  double rest = std::fmod(a, b);
  double whole = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) {
    rest += b;
    whole -= 1;
  }
  if (!quotient) return Value::Float(rest == 0 ? std::copysign(0.0, b) : rest);
  if (whole == 0) return Value::Float(std::copysign(0.0, a / b));
  const double floored = std::floor(whole);
  return Value::Float(whole - floored > 0.5 ? floored + 1 : floored);
}

Value FloatArithmetic(Run& run, Op op, double a, double b) {
  switch (op) {
    case Op::kAdd: return Value::Float(a + b);
    case Op::kSubtract: return Value::Float(a - b);
    case Op::kMultiply: return Value::Float(a * b);
    case Op::kDivide: return b == 0 ? run.Fail("float division by zero") : Value::Float(a / b);
    case Op::kFloorDivide: return b == 0 ? run.Fail("float floor division by zero") : FloatModulo(a, b, true);
    case Op::kModulo: return b == 0 ? run.Fail("float modulo") : FloatModulo(a, b, false);
    default: break;
  }
  if (a == 0 && b < 0) return run.Fail("0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && std::floor(b) != b) return run.Fail("complex numbers are not supported");
  const double power = std::pow(a, b);
  if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) return run.Fail("numerical result out of range");
  return Value::Float(power);
}

Value ConcatLists(Run& run, const Value& a, const Value& b) {
  const std::size_t count = a.items().size() + b.items().size();
  if (!run.meter().Reserve(count * sizeof(Value)) || !run.meter().Step(1 + count / 16)) return Value();
  std::vector<Value> items;
  items.reserve(count);
  items.insert(items.end(), a.items().begin(), a.items().end());
  items.insert(items.end(), b.items().begin(), b.items().end());
  return Value::List(run.meter(), std::move(items), a.kind());
}

Value ConcatStrings(Run& run, const Value& a, const Value& b) {
  const bool markup = a.markup() || b.markup();
  TextBuilder builder(run.meter());
  builder.Reserve(a.text().size() + b.text().size());
  for (const Value* part : {&a, &b}) {
    if (markup && !part->markup()) {
      AppendEscapedHtml(builder, part->text());
    } else {
      builder.Append(part->text());
    }
  }
  return run.String(builder.Take(), markup);
}

Value RepeatSequence(Run& run, const Value& sequence, const Value& count) {
  if (count.is(Kind::kBigInt) && !count.big().negative()) {
    run.meter().Limit("template repeats a sequence too often");
    return Value();
  }
  const std::int64_t times = count.is(Kind::kBigInt) ? 0 : std::max<std::int64_t>(0, count.integer());
  if (sequence.IsString()) {
    TextBuilder builder(run.meter());
    builder.AppendRepeated(sequence.text(), static_cast<std::uint64_t>(times));
    return run.String(builder.Take(), sequence.markup());
  }
  std::vector<Value> items;
  const std::size_t length = sequence.items().size();
  if (length != 0 && times != 0) {
    if (static_cast<std::uint64_t>(times) > (std::uint64_t{1} << 40) / length ||
        !run.meter().Reserve(length * static_cast<std::uint64_t>(times) * sizeof(Value)) ||
        !run.meter().Step(1 + length * static_cast<std::uint64_t>(times) / 16)) {
      run.meter().Limit("template repeats a sequence too often");
      return Value();
    }
    items.reserve(length * static_cast<std::size_t>(times));
    for (std::int64_t i = 0; i < times; ++i) items.insert(items.end(), sequence.items().begin(), sequence.items().end());
  }
  return Value::List(run.meter(), std::move(items), sequence.kind());
}

bool IsWhole(const Value& v) { return v.IsInteger() || v.is(Kind::kBigInt); }

// -1, 0, 1 for numbers; 2 when one of them is not a number.
int CompareNumbers(Run& run, const Value& a, const Value& b) {
  if (a.IsInteger() && b.IsInteger()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  if (IsWhole(a) && IsWhole(b)) {
    const BigInt x = ToBig(a);
    const BigInt y = ToBig(b);
    return x < y ? -1 : x > y ? 1 : 0;
  }
  const double x = ToDouble(run, a);
  const double y = ToDouble(run, b);
  return std::isnan(x) || std::isnan(y) ? 2 : x < y ? -1 : x > y ? 1 : 0;
}

int CompareOrdered(Run& run, Op op, const Value& a, const Value& b);

int CompareSequences(Run& run, Op op, const Value& a, const Value& b) {
  const std::size_t shorter = std::min(a.items().size(), b.items().size());
  for (std::size_t i = 0; i < shorter && run.meter().Step(); ++i) {
    if (!Equal(run.meter(), a.items()[i], b.items()[i])) return CompareOrdered(run, op, a.items()[i], b.items()[i]);
  }
  return a.items().size() < b.items().size() ? -1 : a.items().size() > b.items().size() ? 1 : 0;
}

int CompareOrdered(Run& run, Op op, const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) return CompareNumbers(run, a, b);
  DepthGuard guard(run.meter());
  if (!guard.ok()) return 2;
  if (a.kind() == b.kind()) {
    if (a.IsString() || a.is(Kind::kBytes)) {
      run.meter().Work(std::min(a.text().size(), b.text().size()));
      const int order = a.text().view().compare(b.text().view());  // UTF-8 orders as code points do
      return order < 0 ? -1 : order > 0 ? 1 : 0;
    }
    if (a.IsList()) return CompareSequences(run, op, a, b);
  }
  if (!FailIfUndefined(run, a) && !FailIfUndefined(run, b)) {
    run.Fail(fmt::format("'{}' not supported between instances of '{}' and '{}'", OpName(op), KindName(a), KindName(b)));
  }
  return 2;
}

bool Contains(Run& run, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.IsString()) {
        if (!FailIfUndefined(run, item)) {
          run.Fail(fmt::format("'in <string>' requires string as left operand, not {}", KindName(item)));
        }
        return false;
      }
      run.meter().Work(container.text().size());
      return container.text().view().find(item.text().view()) != std::string_view::npos;
    case Kind::kDict:
    case Kind::kDictKeys:
      if (!Hash(item)) {
        run.Fail(fmt::format("unhashable type: '{}'", KindName(item)));
        return false;
      }
      return container.dict().Find(item) != nullptr;
    default: break;
  }
  if (!IsIterable(container)) {
    run.Fail(fmt::format("argument of type '{}' is not iterable", KindName(container)));
    return false;
  }
  const std::unique_ptr<Iterator> iterator = Iterate(run, container);
  Value next;
  while (iterator != nullptr && iterator->Next(&next)) {
    if (Equal(run.meter(), next, item)) return true;
  }
  return false;
}

}  // namespace

BigInt ToBig(const Value& integer) { return integer.is(Kind::kBigInt) ? integer.big() : BigInt(integer.integer()); }

double ToDouble(Run& run, const Value& number) {
  if (number.is(Kind::kFloat)) return number.real();
  if (number.IsInteger()) return static_cast<double>(number.integer());
  const double value = number.big().ToDouble();
  if (std::isinf(value)) run.Fail("int too large to convert to float");
  return value;
}

Value Arithmetic(Run& run, Op op, const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    Value result = IsWhole(a) && IsWhole(b) ? IntegerArithmetic(run, op, a, b)
                                            : FloatArithmetic(run, op, ToDouble(run, a), ToDouble(run, b));
    return result.SetFromOutside(a.from_outside() || b.from_outside());
  }
  if (op == Op::kModulo && a.IsString()) return FormatPercent(run, a, b);
  if (op == Op::kAdd) {
    if (a.IsString() && b.IsString()) return ConcatStrings(run, a, b);
    if (a.IsList() && a.kind() == b.kind()) return ConcatLists(run, a, b);
    if ((a.IsString() || a.IsList()) && !b.is(Kind::kUndefined)) {
      return run.Fail(a.IsString() ? fmt::format("can only concatenate str (not \"{}\") to str", KindName(b))
                                   : fmt::format("can only concatenate {0} (not \"{1}\") to {0}", KindName(a), KindName(b)));
    }
  }
  if (op == Op::kMultiply) {
    if ((a.IsString() || a.IsList()) && IsWhole(b)) return RepeatSequence(run, a, b);
    if ((b.IsString() || b.IsList()) && IsWhole(a)) return RepeatSequence(run, b, a);
  }
  return Unsupported(run, op, a, b);
}

Value Negate(Run& run, const Value& value) {
  if (value.is(Kind::kFloat)) return Value::Float(-value.real()).SetFromOutside(value.from_outside());
  if (IsWhole(value)) return Arithmetic(run, Op::kSubtract, Value::Int(0), value);
  if (FailIfUndefined(run, value)) return Value();
  return run.Fail(fmt::format("bad operand type for unary -: '{}'", KindName(value)));
}

bool CompareValues(Run& run, Op op, const Value& a, const Value& b) {
  switch (op) {
    case Op::kEqual: return Equal(run.meter(), a, b);
    case Op::kNotEqual: return !Equal(run.meter(), a, b);
    case Op::kIn: return Contains(run, b, a);
    case Op::kNotIn: return !Contains(run, b, a);
    default: break;
  }
  const int order = CompareOrdered(run, op, a, b);
  switch (op) {
    case Op::kLess: return order == -1;
    case Op::kLessEqual: return order == -1 || order == 0;
    case Op::kGreater: return order == 1;
    default: return order == 1 || order == 0;
  }
}

bool Less(Run& run, const Value& a, const Value& b) { return CompareValues(run, Op::kLess, a, b); }

}  // namespace skein::text::templates
