// SPDX-License-Identifier: Apache-2.0
//
// Run: one rendering of a Program. It evaluates expressions (template_evaluate.cc), executes statements
// (template_execute.cc), calls macros and built-in functions (template_call.cc) and runs loops (template_loop.cc).
//
// Failures are kept in the Meter: after the first, functions return an undefined value or false and what is returned
// means nothing. One thread; ends with the rendering, and all its values with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template_ast.h"
#include "text/template_meter.h"
#include "text/template_text.h"
#include "text/template_value.h"

namespace skein::text::templates {

// The variables of one scope. Looked up from the innermost outwards; assigned only in the innermost.
class Frame final : public CyclicObject {
 public:
  Frame(Meter& meter, Ref<Frame> parent) : CyclicObject(meter, sizeof(*this)), parent_(std::move(parent)) {}
  const Value* Find(NameId name) const;
  void Set(NameId name, Value value);
  void ClearReferences() override;

 private:
  Ref<Frame> parent_;
  std::vector<std::pair<NameId, Value>> variables_;
};

struct MacroObject final : CyclicObject {
  MacroObject(Meter& meter, const Statement* s, std::string n, Ref<Frame> f, bool escape)
      : CyclicObject(meter, sizeof(*this) + n.size()),
        statement(s),
        name(std::move(n)),
        frame(std::move(f)),
        autoescape(escape) {}
  void ClearReferences() override { frame = nullptr; }
  const Statement* const statement;  // of a macro, or the call block whose body this is
  const std::string name;            // empty for the body of a call block
  Ref<Frame> frame;                  // where it was defined
  const bool autoescape;             // and what held there
};

// `loop` inside a loop, and the walk over what is looped over.
struct LoopObject final : CyclicObject {
  LoopObject(Meter& meter, const Statement* s, Ref<Frame> f, std::unique_ptr<Iterator> i, int d)
      : CyclicObject(meter, sizeof(*this)), statement(s), frame(std::move(f)), iterator(std::move(i)), depth0(d) {}
  void ClearReferences() override;

  bool Advance();                // to the next item; false at the end
  bool Peek();                   // is there a next item?
  std::int64_t Length();

  const Statement* const statement;
  Ref<Frame> frame;              // around the loop; null where a loop is not recursive
  std::unique_ptr<Iterator> iterator;
  const int depth0;
  std::int64_t index0 = -1;
  Value previous, current, next;
  bool has_previous = false, has_next = false, ended = false;
  std::int64_t length = -1;      // -1: not known yet
  Value changed_last;
  bool changed_asked = false;
};

enum class Flow : std::uint8_t { kOn, kBreak, kContinue };

class Run {
 public:
  // `now` is ISO 8601 without a zone, for strftime_now. Program and strings outlive the Run.
  Run(const Program& program, const TemplateBudgets& budgets, std::string_view now);
  ~Run();

  Meter& meter() { return meter_; }
  bool failed() const { return meter_.failed(); }
  const Program& program() const { return program_; }
  const std::string& now() const { return now_; }
  bool autoescape() const { return autoescape_; }

  // Keeps the failure and gives an undefined to return.
  Value Fail(std::string message) {
    meter_.Error(std::move(message));
    return Value();
  }

  Value String(Text text, bool markup = false) { return Value::String(meter_, std::move(text), markup); }
  Value String(std::string_view bytes, bool trusted = kTrusted) { return Value::String(meter_, bytes, trusted); }
  Value List(std::vector<Value> items) { return Value::List(meter_, std::move(items)); }

  // A variable of the outermost scope; names that the template does not mention are left out.
  void Define(std::string_view name, Value value);
  // The whole template's text.
  Text Render();

  Value Evaluate(const Expr& expr);
  Value Call(const Value& callee, Arguments arguments);
  // The text of a macro or call block's body.
  Value CallMacro(MacroObject& macro, Arguments arguments);
  // loop(items) of a recursive loop.
  Value CallLoop(LoopObject& loop, const Value& items);
  Value CallBlock(const Statement& block);
  Value LoopAttribute(LoopObject& loop, std::string_view name);
  Value MacroAttribute(MacroObject& macro, std::string_view name);

  std::uint64_t NextRandom();

 private:
  // expressions
  Value EvaluateConst(const Expr& expr);
  Value EvaluateName(const Expr& expr);
  Value EvaluateDict(const Expr& expr);
  Value EvaluateSlice(const Expr& expr);
  Value EvaluateCompare(const Expr& expr);
  Value EvaluateConcat(const Expr& expr);
  Value EvaluateCondition(const Expr& expr);
  Value EvaluateTest(const Expr& expr);
  Value ApplyFilters(const Expr& filter, const Value* inner);
  std::vector<Value> EvaluateAll(const std::vector<const Expr*>& exprs);
  Arguments EvaluateArguments(const CallArguments& arguments);

  // statements
  Flow Execute(const Body& body);
  Flow ExecuteOne(const Statement& statement);
  Flow ExecuteIf(const Statement& statement);
  Flow ExecuteFor(const Statement& statement);
  Flow ExecuteWith(const Statement& statement);
  Flow ExecuteSetBlock(const Statement& statement);
  Flow ExecuteFilterBlock(const Statement& statement);
  Flow ExecuteAutoescape(const Statement& statement);
  Flow ExecuteCallBlock(const Statement& statement);
  // In a scope of its own, in which the names of `hidden` begin as undefined.
  Flow ExecuteInner(const Body& body, const std::vector<NameId>& hidden);
  Ref<Frame> NewFrame(const Ref<Frame>& parent, const std::vector<NameId>& hidden);
  void SetVariable(NameId name, Value value);
  Flow RunLoop(const Statement& statement, const Value& items, int depth0);
  std::unique_ptr<Iterator> FilteredItems(const Statement& statement, std::unique_ptr<Iterator> items);
  void Assign(const Expr& target, const Value& value);
  void AssignTuple(const Expr& target, const Value& value);
  bool BindMacro(MacroObject& macro, Arguments arguments);

  void Emit(const Text& text);
  void Print(const Value& value);
  // Runs `body` and gives what it printed.
  template <typename Function>
  Value Capture(Function body);

  friend class FilteredIterator;

  Meter meter_;
  const Program& program_;
  const std::string now_;
  std::vector<Value> constants_;
  Ref<Frame> context_;  // what the caller defined, and what the outermost scope assigned: all that blocks see
  Ref<Frame> top_;      // the template's outermost scope
  Ref<Frame> frame_;    // the current scope
  TextBuilder output_;
  TextBuilder* current_output_;
  bool autoescape_ = false;
  std::uint64_t random_ = 0;
};

// Restores something at the end of a scope.
template <typename T>
class Restore {
 public:
  Restore(T& place, T value) : place_(place), before_(std::exchange(place, std::move(value))) {}
  ~Restore() { place_ = std::move(before_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T& place_;
  T before_;
};

template <typename Function>
Value Run::Capture(Function body) {
  TextBuilder builder(meter_);
  {
    Restore<TextBuilder*> output(current_output_, &builder);
    body();
  }
  meter_.RemoveBytes(builder.size());
  return String(builder.Take(), autoescape_);
}

}  // namespace skein::text::templates
