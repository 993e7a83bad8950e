// SPDX-License-Identifier: Apache-2.0
//
// Filters that make or round numbers.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "text/template_filter_tables.h"
#include "text/template_numbers.h"
#include "text/template_operators.h"
#include "text/template_print.h"
#include "text/template_strings.h"

namespace skein::text::templates {
namespace {

bool FromOutside(const Value& value) {
  return value.IsString() ? !value.text().AllTrusted() : value.from_outside();
}

Value Truncated(Run& run, double value) {
  if (!std::isfinite(value)) return run.Fail("cannot convert float infinity or NaN to integer");
  return Value::Big(run.meter(), BigInt::FromDouble(value));
}

Value Int(Run& run, const Value& self, Bound& arguments) {
  const Value otherwise = arguments.given[0] ? arguments[0] : Value::Int(0);
  if (FailIfUndefined(run, self)) return Value();
  if (self.is(Kind::kFloat)) return Truncated(run, self.real()).SetFromOutside(self.from_outside());
  if (self.IsNumber()) return Arithmetic(run, Op::kAdd, self, Value::Int(0));
  if (!self.IsString()) return otherwise;
  const std::int64_t base = IntegerArgument(run, arguments, 1, 10);
  if (const std::optional<BigInt> whole = ParseInteger(self.text().view(), base)) {
    return Value::Big(run.meter(), *whole).SetFromOutside(FromOutside(self));
  }
  const std::optional<double> real = ParseFloat(self.text().view());
  if (!real || !std::isfinite(*real)) return otherwise;
  return Truncated(run, *real).SetFromOutside(FromOutside(self));
}

Value FloatFilter(Run& run, const Value& self, Bound& arguments) {
  if (FailIfUndefined(run, self)) return Value();
  if (self.IsNumber()) return Value::Float(ToDouble(run, self)).SetFromOutside(self.from_outside());
  if (self.IsString()) {
    if (const std::optional<double> real = ParseFloat(self.text().view())) {
      return Value::Float(*real).SetFromOutside(FromOutside(self));
    }
  }
  return arguments.given[0] ? arguments[0] : Value::Float(0);
}

Value Abs(Run& run, const Value& self, Bound&) {
  if (self.is(Kind::kFloat)) return Value::Float(std::fabs(self.real())).SetFromOutside(self.from_outside());
  if (!self.IsNumber()) {
    return FailIfUndefined(run, self) ? Value() : run.Fail(fmt::format("bad operand type for abs(): '{}'", KindName(self)));
  }
  const bool negative = self.is(Kind::kBigInt) ? self.big().negative() : self.integer() < 0;
  return negative ? Negate(run, self) : Arithmetic(run, Op::kAdd, self, Value::Int(0));
}

// To the nearest multiple of 10^-places, halves to the even neighbour.
double RoundFloat(double value, std::int64_t places) {
  if (!std::isfinite(value) || places > 300) return value;
  if (places >= 0) return std::strtod(fmt::format("{:.{}f}", value, places).c_str(), nullptr);
  if (places < -308) return std::copysign(0.0, value);
  const double unit = std::pow(10.0, static_cast<double>(-places));
  return std::nearbyint(value / unit) * unit;
}

Value RoundInteger(Run& run, const Value& value, std::int64_t places) {
  if (places >= 0) return Arithmetic(run, Op::kAdd, value, Value::Int(0));
  if (places < -200) return Value::Int(0);
  const BigInt unit = BigInt::Power(10, static_cast<unsigned>(-places));
  BigInt low;
  BigInt rest;
  BigInt::Divide(ToBig(value), unit, &low, &rest);
  const BigInt twice = rest * 2;
  if (twice > unit || (twice == unit && low.odd())) low = low + 1;
  return Value::Big(run.meter(), low * unit);
}

Value Round(Run& run, const Value& self, Bound& arguments) {
  const std::int64_t places = IntegerArgument(run, arguments, 0, 0);
  const Text method = StringArgument(run, arguments, 1, "common");
  if (FailIfUndefined(run, self)) return Value();
  if (!self.IsNumber()) return run.Fail(fmt::format("type {} doesn't define __round__ method", KindName(self)));
  if (run.failed()) return Value();
  Value result;
  if (method.view() == "common") {
    result = self.is(Kind::kFloat) ? Value::Float(RoundFloat(self.real(), places)) : RoundInteger(run, self, places);
  } else if (method.view() == "ceil" || method.view() == "floor") {
    const double unit = std::pow(10.0, static_cast<double>(places));
    const double scaled = ToDouble(run, self) * unit;
    result = Value::Float((method.view() == "ceil" ? std::ceil(scaled) + 0.0 : std::floor(scaled) + 0.0) / unit);
  } else {
    return run.Fail("method must be common, ceil or floor");
  }
  return result.SetFromOutside(self.from_outside());
}

Value FileSize(Run& run, const Value& self, Bound& arguments) {
  const bool binary = TruthArgument(arguments, 0, false);
  std::optional<double> bytes;
  if (self.IsNumber()) bytes = ToDouble(run, self);
  if (self.IsString()) bytes = ParseFloat(self.text().view());
  if (FailIfUndefined(run, self)) return Value();
  if (!bytes) return run.Fail("a size must be a number");
  const double base = binary ? 1024 : 1000;
  if (*bytes == 0) bytes = 0;  // not -0
  const bool trusted = !FromOutside(self);
  if (*bytes == 1) return run.String("1 Byte", trusted);
  if (*bytes < base) return run.String(fmt::format("{:.0f} Bytes", std::trunc(*bytes)), trusted);
  double unit = base * base;
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  std::size_t place = 0;
  for (; place + 1 < kPrefixes.size() && *bytes >= unit; ++place) unit *= base;
  const char prefix = binary && place == 0 ? 'K' : kPrefixes[place];
  return run.String(fmt::format("{:.1f} {}{}B", base * *bytes / unit, prefix, binary ? "i" : ""), trusted);
}

constexpr Builtin kFilters[] = {
    {"int", Int, "default,base"},
    {"float", FloatFilter, "default"},
    {"abs", Abs},
    {"round", Round, "precision,method"},
    {"filesizeformat", FileSize, "binary"},
};

}  // namespace

std::span<const Builtin> NumberFilters() { return kFilters; }

}  // namespace skein::text::templates
