// SPDX-License-Identifier: Apache-2.0
//
// Evaluation of expressions: one function per kind that needs more than a line. See template_run.h.
#include <algorithm>

#include <fmt/format.h>

#include "text/template_builtin.h"
#include "text/template_operators.h"
#include "text/template_print.h"
#include "text/template_run.h"

namespace skein::text::templates {

Value Run::Evaluate(const Expr& expr) {
  DepthGuard guard(meter_);
  if (!guard.ok() || !meter_.Step()) return Value();
  switch (expr.kind) {
    case ExprKind::kConst: return EvaluateConst(expr);
    case ExprKind::kName: return EvaluateName(expr);
    case ExprKind::kList: return List(EvaluateAll(expr.items));
    case ExprKind::kTuple: return Value::Tuple(meter_, EvaluateAll(expr.items));
    case ExprKind::kDict: return EvaluateDict(expr);
    case ExprKind::kGetAttr: return GetAttribute(*this, Evaluate(*expr.a), expr.text);
    case ExprKind::kGetItem: {
      const Value value = Evaluate(*expr.a);
      return GetItem(*this, value, Evaluate(*expr.b));
    }
    case ExprKind::kSlice: return EvaluateSlice(expr);
    case ExprKind::kCall: {
      const Value callee = Evaluate(*expr.a);
      Arguments arguments = EvaluateArguments(expr.arguments);
      return failed() ? Value() : Call(callee, std::move(arguments));
    }
    case ExprKind::kFilter: return ApplyFilters(expr, nullptr);
    case ExprKind::kTest: return EvaluateTest(expr);
    case ExprKind::kNegate: return Negate(*this, Evaluate(*expr.a));
    case ExprKind::kPlus: {
      const Value value = Evaluate(*expr.a);
      if (value.is(Kind::kBool)) return Value::Int(value.integer()).SetFromOutside(value.from_outside());
      if (value.IsNumber() || FailIfUndefined(*this, value)) return value;
      return Fail(fmt::format("bad operand type for unary +: '{}'", KindName(value)));
    }
    case ExprKind::kNot: return Value::Bool(!Truth(Evaluate(*expr.a)));
    case ExprKind::kAnd: {
      Value left = Evaluate(*expr.a);
      return Truth(left) ? Evaluate(*expr.b) : left;
    }
    case ExprKind::kOr: {
      Value left = Evaluate(*expr.a);
      return Truth(left) ? left : Evaluate(*expr.b);
    }
    case ExprKind::kBinary: {
      const Value left = Evaluate(*expr.a);
      const Value right = Evaluate(*expr.b);
      return failed() ? Value() : Arithmetic(*this, expr.op, left, right);
    }
    case ExprKind::kCompare: return EvaluateCompare(expr);
    case ExprKind::kConcat: return EvaluateConcat(expr);
    case ExprKind::kCondition: return EvaluateCondition(expr);
    case ExprKind::kNamespaceRef: break;
  }
  return Value();
}

Value Run::EvaluateConst(const Expr& expr) {
  Value& value = constants_[expr.const_id];
  if (!value.is(Kind::kUndefined)) return value;
  switch (expr.constant) {
    case ConstKind::kNone: value = Value::None(); break;
    case ConstKind::kBool: value = Value::Bool(expr.boolean); break;
    case ConstKind::kFloat: value = Value::Float(expr.real); break;
    case ConstKind::kString: value = String(expr.text); break;
    case ConstKind::kInteger: {
      const bool based = expr.text.size() > 2 && expr.text[0] == '0' && expr.text[1] > '9';
      const char mark = based ? static_cast<char>(expr.text[1] | 0x20) : 'd';
      const unsigned base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      value = Value::Big(meter_, BigInt::FromDigits(std::string_view(expr.text).substr(based ? 2 : 0), base));
      break;
    }
  }
  return value;
}

Value Run::EvaluateName(const Expr& expr) {
  if (const Value* found = frame_->Find(expr.name)) return *found;
  if (const Builtin* global = FindGlobal(expr.text)) {
    return Value::Of(Kind::kFunction, Make<FunctionObject>(meter_, global, Value()));
  }
  if (expr.text == "self") return Value::Of(Kind::kSelf, nullptr);
  return Value::Undefined(meter_, fmt::format("'{}' is undefined", expr.text));
}

std::vector<Value> Run::EvaluateAll(const std::vector<const Expr*>& exprs) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const Expr* expr : exprs) {
    if (failed()) break;
    values.push_back(Evaluate(*expr));
  }
  return values;
}

Value Run::EvaluateDict(const Expr& expr) {
  Ref<DictObject> dict = Make<DictObject>(meter_);
  for (std::size_t i = 0; i + 1 < expr.items.size() && !failed(); i += 2) {
    const Value key = Evaluate(*expr.items[i]);
    Value value = Evaluate(*expr.items[i + 1]);
    if (!failed()) dict->Set(key, std::move(value));
  }
  return Value::Of(Kind::kDict, dict);
}

// A value that the reference knows before rendering; slicing such a one wrongly gives it an undefined, not an error.
bool IsConstant(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kConst: return true;
    case ExprKind::kNegate:
    case ExprKind::kPlus:
    case ExprKind::kNot: return IsConstant(*expr.a);
    case ExprKind::kBinary: return IsConstant(*expr.a) && IsConstant(*expr.b);
    case ExprKind::kList:
    case ExprKind::kTuple:
    case ExprKind::kDict:
      return std::all_of(expr.items.begin(), expr.items.end(), [](const Expr* item) { return IsConstant(*item); });
    default: return false;
  }
}

Value Run::EvaluateSlice(const Expr& expr) {
  const Value value = Evaluate(*expr.a);
  Value parts[3];
  for (std::size_t i = 0; i < 3; ++i) parts[i] = expr.items[i] == nullptr ? Value::None() : Evaluate(*expr.items[i]);
  if (failed() || (!IsSliceable(value) && IsConstant(*expr.a))) return Value();
  return GetSlice(*this, value, parts[0], parts[1], parts[2]);
}

Value Run::EvaluateCompare(const Expr& expr) {
  Value left = Evaluate(*expr.items[0]);
  for (std::size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = Evaluate(*expr.items[i + 1]);
    if (failed() || !CompareValues(*this, expr.ops[i], left, right)) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Run::EvaluateConcat(const Expr& expr) {
  const std::vector<Value> values = EvaluateAll(expr.items);
  bool markup = false;
  if (autoescape_) {
    for (const Value& value : values) markup = markup || (value.IsString() && value.markup());
  }
  std::size_t bytes = 0;
  for (const Value& value : values) bytes += value.IsString() ? value.text().size() : 0;
  TextBuilder builder(meter_);
  builder.Reserve(bytes);
  for (const Value& value : values) {
    if (failed()) break;
    if (markup) {
      builder.Append(EscapeHtml(*this, value).text());
    } else if (value.IsString()) {
      builder.Append(value.text());
    } else {
      builder.Append(ToText(*this, value));
    }
  }
  return String(builder.Take(), markup);
}

Value Run::EvaluateCondition(const Expr& expr) {
  if (Truth(Evaluate(*expr.a))) return failed() ? Value() : Evaluate(*expr.b);
  if (expr.c != nullptr) return Evaluate(*expr.c);
  return Value::Undefined(meter_, fmt::format("the inline if-expression on line {} evaluated to false and no else "
                                              "section was defined.", expr.line));
}

Value Run::EvaluateTest(const Expr& expr) {
  const Value value = Evaluate(*expr.a);
  Arguments arguments = EvaluateArguments(expr.arguments);
  if (failed()) return Value();
  if (expr.builtin == nullptr) return Fail(fmt::format("No test named '{}'.", expr.text));
  return CallBuiltin(*this, *expr.builtin, value, std::move(arguments));
}

// `inner` is what a filter block applies its filters to; null where the first filter has a value of its own.
Value Run::ApplyFilters(const Expr& filter, const Value* inner) {
  Value value;
  if (filter.a == nullptr) {
    value = *inner;
  } else if (filter.a->kind == ExprKind::kFilter) {
    DepthGuard guard(meter_);
    if (!guard.ok() || !meter_.Step()) return Value();
    value = ApplyFilters(*filter.a, inner);
  } else {
    value = Evaluate(*filter.a);
  }
  Arguments arguments = EvaluateArguments(filter.arguments);
  if (failed()) return Value();
  if (filter.builtin == nullptr) return Fail(fmt::format("No filter named '{}'.", filter.text));
  return CallBuiltin(*this, *filter.builtin, value, std::move(arguments));
}

Arguments Run::EvaluateArguments(const CallArguments& call) {
  Arguments arguments;
  arguments.positional = EvaluateAll(call.positional);
  for (const auto& [name, expr] : call.named) arguments.named.emplace_back(name, Evaluate(*expr));
  if (call.rest != nullptr && !failed()) {
    for (Value& value : Collect(*this, Evaluate(*call.rest))) arguments.positional.push_back(std::move(value));
  }
  if (call.named_rest != nullptr && !failed()) {
    const Value rest = Evaluate(*call.named_rest);
    if (!rest.is(Kind::kDict)) {
      if (!FailIfUndefined(*this, rest)) Fail("argument after ** must be a mapping");
      return arguments;
    }
    for (const DictObject::Entry& entry : rest.dict().entries()) {
      if (!entry.key.IsString()) {
        Fail("keywords must be strings");
        break;
      }
      for (const auto& [name, value] : arguments.named) {
        if (name == entry.key.text().view()) Fail(fmt::format("got multiple values for keyword argument '{}'", name));
      }
      arguments.named.emplace_back(entry.key.text().bytes(), entry.value);
    }
  }
  return arguments;
}

}  // namespace skein::text::templates
