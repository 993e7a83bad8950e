// SPDX-License-Identifier: Apache-2.0
//
// Loops: walking with a look at the next item, the variable `loop`, filtered and recursive loops. See template_run.h.
#include <algorithm>

#include <fmt/format.h>

#include "text/template_operators.h"
#include "text/template_run.h"

namespace skein::text::templates {

void LoopObject::ClearReferences() {
  frame = nullptr;
  iterator = nullptr;
  previous = current = next = changed_last = Value();
}

bool LoopObject::Peek() {
  if (!has_next && !ended && iterator != nullptr) {
    has_next = iterator->Next(&next);
    ended = !has_next;
  }
  return has_next;
}

bool LoopObject::Advance() {
  if (!Peek()) return false;
  has_previous = index0 >= 0;
  previous = std::move(current);
  current = std::move(next);
  next = Value();
  has_next = false;
  ++index0;
  return true;
}

namespace {

class BufferedIterator final : public Iterator {
 public:
  explicit BufferedIterator(std::vector<Value> items) : items_(std::move(items)) {}
  bool Next(Value* value) override {
    if (at_ >= items_.size()) return false;
    *value = std::move(items_[at_++]);
    return true;
  }
  std::optional<std::size_t> Length() const override { return items_.size() - at_; }

 private:
  std::vector<Value> items_;
  std::size_t at_ = 0;
};

}  // namespace

std::int64_t LoopObject::Length() {
  if (length >= 0) return length;
  const std::int64_t passed = index0 + 1 + (has_next ? 1 : 0);
  if (ended || iterator == nullptr) return length = passed;
  std::optional<std::size_t> left = iterator->Length();
  if (!left) {  // walk the rest now and keep it
    std::vector<Value> rest;
    Value item;
    while (iterator->Next(&item)) {
      rest.push_back(std::move(item));
      meter().Reserve(rest.size() * sizeof(Value));
    }
    left = rest.size();
    iterator = std::make_unique<BufferedIterator>(std::move(rest));
  }
  return length = passed + static_cast<std::int64_t>(*left);
}

// The items for which the loop's `if` holds, looked at one by one as the loop goes on.
class FilteredIterator final : public Iterator {
 public:
  FilteredIterator(Run& run, const Statement& statement, std::unique_ptr<Iterator> items, Ref<Frame> around)
      : run_(run), statement_(statement), items_(std::move(items)), around_(std::move(around)) {}

  bool Next(Value* value) override {
    while (!run_.failed() && items_->Next(value)) {
      Restore<Ref<Frame>> scope(run_.frame_, Make<Frame>(run_.meter_, around_));
      run_.Assign(*statement_.target, *value);
      if (run_.failed()) return false;
      const bool holds = Truth(run_.Evaluate(*statement_.test));
      if (run_.failed()) return false;
      if (holds) return true;
    }
    return false;
  }

 private:
  Run& run_;
  const Statement& statement_;
  const std::unique_ptr<Iterator> items_;
  const Ref<Frame> around_;
};

std::unique_ptr<Iterator> Run::FilteredItems(const Statement& statement, std::unique_ptr<Iterator> items) {
  if (statement.test == nullptr || items == nullptr) return items;
  return std::make_unique<FilteredIterator>(*this, statement, std::move(items), frame_);
}

Flow Run::ExecuteFor(const Statement& statement) {
  const Value items = Evaluate(*statement.expr);
  return failed() ? Flow::kOn : RunLoop(statement, items, 0);
}

Flow Run::RunLoop(const Statement& statement, const Value& items, int depth0) {
  std::unique_ptr<Iterator> iterator = FilteredItems(statement, Iterate(*this, items));
  if (iterator == nullptr) return Flow::kOn;
  const Ref<Frame> around = frame_;
  const Ref<LoopObject> loop = Make<LoopObject>(meter_, &statement, statement.recursive ? around : Ref<Frame>(),
                                                std::move(iterator), depth0);
  const NameId loop_name = program_.FindName("loop");
  bool ended_one = false;  // an iteration that `continue` or `break` cuts short does not keep the `else` away
  while (!failed() && loop->Advance()) {
    Restore<Ref<Frame>> scope(frame_, NewFrame(around, statement.hidden));
    if (loop_name != Program::kNoName) frame_->Set(loop_name, Value::Of(Kind::kLoop, loop));
    Assign(*statement.target, loop->current);
    if (!meter_.Step()) break;
    const Flow flow = Execute(statement.body);
    if (flow == Flow::kBreak) break;
    ended_one = ended_one || flow == Flow::kOn;
  }
  if (!ended_one && !failed()) return ExecuteInner(statement.otherwise, statement.hidden_otherwise);
  return Flow::kOn;
}

Value Run::CallLoop(LoopObject& loop, const Value& items) {
  if (!loop.frame) return Fail("The loop must have the 'recursive' marker to be called recursively.");
  DepthGuard guard(meter_);
  if (!guard.ok()) return Value();
  const Ref<LoopObject> keep(&loop);
  Restore<Ref<Frame>> scope(frame_, loop.frame);
  return Capture([&] { RunLoop(*loop.statement, items, loop.depth0 + 1); });
}

Value Run::LoopAttribute(LoopObject& loop, std::string_view name) {
  if (name == "index") return Value::Int(loop.index0 + 1);
  if (name == "index0") return Value::Int(loop.index0);
  if (name == "first") return Value::Bool(loop.index0 == 0);
  if (name == "last") return Value::Bool(!loop.Peek());
  if (name == "length") return Value::Int(loop.Length());
  if (name == "revindex") return Value::Int(loop.Length() - loop.index0);
  if (name == "revindex0") return Value::Int(loop.Length() - loop.index0 - 1);
  if (name == "depth") return Value::Int(loop.depth0 + 1);
  if (name == "depth0") return Value::Int(loop.depth0);
  if (name == "previtem") return loop.has_previous ? loop.previous : Value::Undefined(meter_, "there is no previous item");
  if (name == "nextitem") return loop.Peek() ? loop.next : Value::Undefined(meter_, "there is no next item");
  return Value();
}

}  // namespace skein::text::templates
