// SPDX-License-Identifier: Apache-2.0
//
// Execution of statements, and the scopes that they open. See template_run.h.
#include <fmt/format.h>

#include "text/template_operators.h"
#include "text/template_print.h"
#include "text/template_run.h"

namespace skein::text::templates {

const Value* Frame::Find(NameId name) const {
  for (const Frame* frame = this; frame != nullptr; frame = frame->parent_.get()) {
    for (const auto& [variable, value] : frame->variables_) {
      if (variable == name) return &value;
    }
  }
  return nullptr;
}

void Frame::Set(NameId name, Value value) {
  for (auto& [variable, place] : variables_) {
    if (variable == name) {
      place = std::move(value);
      return;
    }
  }
  Charge(sizeof(Value) + 16);
  variables_.emplace_back(name, std::move(value));
}

void Frame::ClearReferences() {
  variables_.clear();
  parent_ = nullptr;
}

Run::Run(const Program& program, const TemplateBudgets& budgets, std::string_view now)
    : meter_(budgets),
      program_(program),
      now_(now),
      constants_(program.constants),
      context_(Make<Frame>(meter_, nullptr)),
      top_(NewFrame(context_, program.hidden)),
      frame_(top_),
      output_(meter_),
      current_output_(&output_) {}

Run::~Run() { meter_.BreakCycles(); }

void Run::Define(std::string_view name, Value value) {
  if (const NameId id = program_.FindName(name); id != Program::kNoName) context_->Set(id, std::move(value));
}

Text Run::Render() {
  Execute(program_.body);
  return output_.Take();
}

std::uint64_t Run::NextRandom() {  // splitmix64; the same for every rendering
  std::uint64_t z = (random_ += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

void Run::Emit(const Text& text) {
  const std::size_t before = current_output_->size();
  current_output_->Append(text);
  meter_.AddBytes(current_output_->size() - before);
  meter_.Reserve(0);
}

void Run::Print(const Value& value) {
  if (failed()) return;
  if (autoescape_) return Emit(EscapeHtml(*this, value).text());
  if (value.IsString()) return Emit(value.text());
  Emit(ToText(*this, value));
}

Flow Run::Execute(const Body& body) {
  for (const Statement* statement : body) {
    if (!meter_.Step()) return Flow::kOn;
    if (const Flow flow = ExecuteOne(*statement); flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Ref<Frame> Run::NewFrame(const Ref<Frame>& parent, const std::vector<NameId>& hidden) {
  Ref<Frame> frame = Make<Frame>(meter_, parent);
  for (const NameId name : hidden) {
    frame->Set(name, Value::Undefined(meter_, fmt::format("'{}' is undefined", program_.names[name])));
  }
  return frame;
}

void Run::SetVariable(NameId name, Value value) {
  if (frame_.get() == top_.get()) context_->Set(name, value);
  frame_->Set(name, std::move(value));
}

Flow Run::ExecuteInner(const Body& body, const std::vector<NameId>& hidden) {
  Restore<Ref<Frame>> scope(frame_, NewFrame(frame_, hidden));
  return Execute(body);
}

Flow Run::ExecuteOne(const Statement& statement) {
  DepthGuard guard(meter_);
  if (!guard.ok()) return Flow::kOn;
  switch (statement.kind) {
    case StatementKind::kData: Emit(Text(statement.text, kTrusted)); break;
    case StatementKind::kPrint:
      for (const Expr* item : statement.items) Print(Evaluate(*item));
      break;
    case StatementKind::kFor: return ExecuteFor(statement);
    case StatementKind::kIf: return ExecuteIf(statement);
    case StatementKind::kMacro:
      SetVariable(statement.name, Value::Of(Kind::kMacro, Make<MacroObject>(meter_, &statement,
                                                                            program_.names[statement.name], frame_, autoescape_)));
      break;
    case StatementKind::kCallBlock: return ExecuteCallBlock(statement);
    case StatementKind::kFilterBlock: return ExecuteFilterBlock(statement);
    case StatementKind::kSet: Assign(*statement.target, Evaluate(*statement.expr)); break;
    case StatementKind::kSetBlock: return ExecuteSetBlock(statement);
    case StatementKind::kWith: return ExecuteWith(statement);
    case StatementKind::kAutoescape: return ExecuteAutoescape(statement);
    case StatementKind::kBlock: Print(CallBlock(statement)); break;
    case StatementKind::kGeneration: return ExecuteInner(statement.body, statement.hidden);
    case StatementKind::kBreak: return Flow::kBreak;
    case StatementKind::kContinue: return Flow::kContinue;
    case StatementKind::kNoLoader:
      Fail(fmt::format("'{}' needs another template, and there is nowhere to load one from", statement.text));
      break;
  }
  return Flow::kOn;
}

Flow Run::ExecuteIf(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (Truth(Evaluate(*branch.test))) return failed() ? Flow::kOn : Execute(branch.body);
  }
  return Execute(statement.otherwise);
}

Flow Run::ExecuteWith(const Statement& statement) {
  std::vector<Value> values;
  for (const auto& [target, expr] : statement.assignments) values.push_back(Evaluate(*expr));
  Restore<Ref<Frame>> scope(frame_, NewFrame(frame_, statement.hidden));
  for (std::size_t i = 0; i < values.size(); ++i) Assign(*statement.assignments[i].first, values[i]);
  return Execute(statement.body);
}

Flow Run::ExecuteSetBlock(const Statement& statement) {
  Flow flow = Flow::kOn;
  Value text = Capture([&] { flow = ExecuteInner(statement.body, statement.hidden); });
  if (failed() || flow != Flow::kOn) return flow;
  if (statement.expr != nullptr) text = ApplyFilters(*statement.expr, &text);
  Assign(*statement.target, text);
  return Flow::kOn;
}

Flow Run::ExecuteFilterBlock(const Statement& statement) {
  Flow flow = Flow::kOn;
  const Value text = Capture([&] { flow = ExecuteInner(statement.body, statement.hidden); });
  if (failed() || flow != Flow::kOn) return flow;
  const Value filtered = ApplyFilters(*statement.expr, &text);
  if (!failed() && !filtered.IsString()) Fail(fmt::format("a filter block must give text, not {}", KindName(filtered)));
  if (!failed()) Emit(filtered.text());
  return flow;
}

Flow Run::ExecuteAutoescape(const Statement& statement) {
  const bool on = Truth(Evaluate(*statement.expr));
  Restore<bool> escape(autoescape_, on);
  return ExecuteInner(statement.body, statement.hidden);
}

Flow Run::ExecuteCallBlock(const Statement& statement) {
  const Value callee = Evaluate(*statement.expr->a);
  Arguments arguments = EvaluateArguments(statement.expr->arguments);
  if (failed()) return Flow::kOn;
  arguments.named.emplace_back("caller", Value::Of(Kind::kMacro, Make<MacroObject>(meter_, &statement, "", frame_, autoescape_)));
  Print(Call(callee, std::move(arguments)));
  return Flow::kOn;
}

void Run::Assign(const Expr& target, const Value& value) {
  if (failed()) return;
  switch (target.kind) {
    case ExprKind::kName: return SetVariable(target.name, value);
    case ExprKind::kTuple: return AssignTuple(target, value);
    default: break;
  }
  const Value* space = frame_->Find(target.name);
  if (space == nullptr || !space->is(Kind::kNamespace)) {
    return void(Fail("cannot assign attribute on non-namespace object"));
  }
  if (target.text.starts_with('_')) {
    return void(Fail(fmt::format("no underscore-prefixed attribute on a namespace: '{}'", target.text)));
  }
  space->as<NamespaceObject>().values->Set(target.text, value);
}

void Run::AssignTuple(const Expr& target, const Value& value) {
  if (FailIfUndefined(*this, value)) return;
  const std::unique_ptr<Iterator> iterator = Iterate(*this, value);
  if (iterator == nullptr) return;
  for (std::size_t i = 0; i < target.items.size(); ++i) {
    Value item;
    if (!iterator->Next(&item)) {
      return void(Fail(fmt::format("not enough values to unpack (expected {}, got {})", target.items.size(), i)));
    }
    Assign(*target.items[i], item);
  }
  Value more;
  if (iterator->Next(&more)) Fail(fmt::format("too many values to unpack (expected {})", target.items.size()));
}

}  // namespace skein::text::templates
