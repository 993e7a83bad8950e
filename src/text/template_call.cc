// SPDX-License-Identifier: Apache-2.0
//
// Calls: of built-in rows with their arguments bound, of macros and of blocks. See template_run.h.
#include <algorithm>

#include <fmt/format.h>

#include "text/template_builtin.h"
#include "text/template_operators.h"
#include "text/template_run.h"

namespace skein::text::templates {
namespace {

// The names of a row's parameters.
struct ParameterList {
  std::array<std::string_view, Bound::kMost> names;
  std::size_t count = 0;
  bool by_place_only = false;
  bool open_ended = false;

  explicit ParameterList(std::string_view text) {
    while (!text.empty()) {
      const std::size_t comma = std::min(text.find(','), text.size());
      const std::string_view name = text.substr(0, comma);
      text.remove_prefix(std::min(comma + 1, text.size()));
      if (name == "/") {
        by_place_only = true;
      } else if (name == "...") {
        open_ended = true;
      } else {
        names[count++] = name;
      }
    }
  }

  std::size_t Place(std::string_view name) const {
    if (by_place_only) return count;
    return static_cast<std::size_t>(std::find(names.begin(), names.begin() + count, name) - names.begin());
  }
};

}  // namespace

Value CallBuiltin(Run& run, const Builtin& builtin, const Value& self, Arguments arguments) {
  DepthGuard guard(run.meter());
  if (!guard.ok() || !run.meter().Step()) return Value();
  const ParameterList parameters(builtin.parameters);
  Bound bound;
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i < parameters.count) {
      bound.value[i] = std::move(arguments.positional[i]);
      bound.given[i] = true;
    } else if (parameters.open_ended) {
      bound.rest.positional.push_back(std::move(arguments.positional[i]));
    } else {
      return run.Fail(fmt::format("{}() takes at most {} argument(s), {} given", builtin.name, parameters.count,
                                  arguments.positional.size()));
    }
  }
  for (auto& [name, value] : arguments.named) {
    const std::size_t place = parameters.Place(name);
    if (place < parameters.count) {
      if (bound.given[place]) return run.Fail(fmt::format("{}() got multiple values for argument '{}'", builtin.name, name));
      bound.value[place] = std::move(value);
      bound.given[place] = true;
    } else if (parameters.open_ended) {
      bound.rest.named.emplace_back(name, std::move(value));
    } else {
      return run.Fail(fmt::format("{}() got an unexpected keyword argument '{}'", builtin.name, name));
    }
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(builtin.required); ++i) {
    if (!bound.given[i]) return run.Fail(fmt::format("{}() misses its argument '{}'", builtin.name, parameters.names[i]));
  }
  return builtin.function(run, self, bound);
}

Value Run::Call(const Value& callee, Arguments arguments) {
  switch (callee.kind()) {
    case Kind::kFunction: {
      const FunctionObject& function = callee.as<FunctionObject>();
      return CallBuiltin(*this, *function.builtin, function.self, std::move(arguments));
    }
    case Kind::kMacro: return CallMacro(callee.as<MacroObject>(), std::move(arguments));
    case Kind::kLoop:
      if (arguments.positional.size() != 1 || !arguments.named.empty()) return Fail("loop() takes one argument");
      return CallLoop(callee.as<LoopObject>(), arguments.positional[0]);
    case Kind::kJoiner: {
      JoinerObject& joiner = callee.as<JoinerObject>();
      return std::exchange(joiner.used, true) ? joiner.separator : String("");
    }
    default:
      if (FailIfUndefined(*this, callee)) return Value();
      return Fail(fmt::format("'{}' object is not callable", KindName(callee)));
  }
}

Value Run::CallMacro(MacroObject& macro, Arguments arguments) {
  if (macro.statement->kind == StatementKind::kBlock) return CallBlock(*macro.statement);
  DepthGuard guard(meter_);
  if (!guard.ok()) return Value();
  const Ref<MacroObject> keep(&macro);
  Restore<Ref<Frame>> scope(frame_, NewFrame(macro.frame, macro.statement->hidden));
  if (!BindMacro(macro, std::move(arguments))) return Value();
  return Capture([&] {
    Restore<bool> escape(autoescape_, macro.autoescape);
    Execute(macro.statement->body);
  });
}

// Sets the parameters as variables of the current scope, the macro's own.
bool Run::BindMacro(MacroObject& macro, Arguments arguments) {
  const Signature& signature = macro.statement->signature;
  const auto take = [&](std::string_view name) -> std::optional<Value> {
    for (auto named = arguments.named.begin(); named != arguments.named.end(); ++named) {
      if (named->first != name) continue;
      Value value = std::move(named->second);
      arguments.named.erase(named);
      return value;
    }
    return std::nullopt;
  };
  const std::size_t count = signature.parameters.size();
  bool caller_bound = false;
  std::vector<const Parameter*> missing;
  for (std::size_t i = 0; i < count; ++i) {
    const Parameter& parameter = signature.parameters[i];
    const std::string& name = program_.names[parameter.name];
    caller_bound = caller_bound || name == "caller";
    if (i < arguments.positional.size()) {
      frame_->Set(parameter.name, std::move(arguments.positional[i]));
    } else if (std::optional<Value> value = take(name)) {
      frame_->Set(parameter.name, std::move(*value));
    } else {
      missing.push_back(&parameter);
    }
  }
  if (signature.uses_caller && !caller_bound) {
    std::optional<Value> caller = take("caller");
    frame_->Set(program_.FindName("caller"), caller ? *caller : Value::Undefined(meter_, "No caller defined"));
  }
  if (signature.uses_kwargs) {
    Ref<DictObject> rest = Make<DictObject>(meter_);
    for (auto& [name, value] : arguments.named) rest->Set(name, std::move(value));
    frame_->Set(program_.FindName("kwargs"), Value::Of(Kind::kDict, rest));
  } else if (!arguments.named.empty()) {
    Fail(fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, arguments.named.front().first));
    return false;
  }
  std::vector<Value> extra;
  for (std::size_t i = count; i < arguments.positional.size(); ++i) extra.push_back(std::move(arguments.positional[i]));
  if (signature.uses_varargs) {
    frame_->Set(program_.FindName("varargs"), Value::Tuple(meter_, std::move(extra)));
  } else if (!extra.empty()) {
    Fail(fmt::format("macro '{}' takes not more than {} argument(s)", macro.name, count));
    return false;
  }
  for (const Parameter* parameter : missing) {
    frame_->Set(parameter->name, parameter->value != nullptr
                                     ? Evaluate(*parameter->value)
                                     : Value::Undefined(meter_, fmt::format("parameter '{}' was not provided",
                                                                            program_.names[parameter->name])));
  }
  return !failed();
}

Value Run::CallBlock(const Statement& block) {
  DepthGuard guard(meter_);
  if (!guard.ok()) return Value();
  Restore<Ref<Frame>> scope(frame_, NewFrame(context_, block.hidden));
  return Capture([&] {
    Restore<bool> escape(autoescape_, false);
    Execute(block.body);
  });
}

Value Run::MacroAttribute(MacroObject& macro, std::string_view name) {
  const Signature& signature = macro.statement->signature;
  if (name == "name") return macro.name.empty() ? Value::None() : String(macro.name);
  if (name == "caller") return Value::Bool(signature.uses_caller);
  if (name == "catch_kwargs") return Value::Bool(signature.uses_kwargs);
  if (name == "catch_varargs") return Value::Bool(signature.uses_varargs);
  if (name == "arguments") {
    std::vector<Value> names;
    for (const Parameter& parameter : signature.parameters) names.push_back(String(program_.names[parameter.name]));
    return Value::Tuple(meter_, std::move(names));
  }
  return Value();
}

}  // namespace skein::text::templates
