// SPDX-License-Identifier: Apache-2.0
//
// Counting and the freeing of objects; see template_meter.h.
#include "text/template_meter.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/template_value.h"

namespace skein::text::templates {
namespace {

constexpr std::uint64_t kStepsPerClockLook = 2048;

}  // namespace

Meter::Meter(const TemplateBudgets& budgets)
    : budgets_(budgets), deadline_(std::chrono::steady_clock::now() + budgets.time) {}

Meter::~Meter() { BreakCycles(); }

void Meter::Fail(Code code, std::string message) {
  if (failed_) return;
  failed_ = true;
  status_ = Status(code, std::move(message));
}

bool Meter::CheckSteps() {
  if (steps_ > budgets_.steps) {
    Limit(fmt::format("template takes more than {} steps", budgets_.steps));
    return false;
  }
  if (std::chrono::steady_clock::now() > deadline_) {
    Limit(fmt::format("template takes more than {} ms", budgets_.time.count()));
    return false;
  }
  next_check_ = std::min(steps_ + kStepsPerClockLook, budgets_.steps + 1);
  return true;
}

bool Meter::Reserve(std::uint64_t bytes) {
  if (failed_) return false;
  if (bytes > budgets_.memory_bytes || live_bytes_ > budgets_.memory_bytes - bytes) {
    Limit(fmt::format("template holds more than {} bytes of values", budgets_.memory_bytes));
    return false;
  }
  return true;
}

bool Meter::Enter() {
  ++depth_;
  if (depth_ <= budgets_.depth) return !failed_;
  Limit(fmt::format("template nests deeper than {} levels", budgets_.depth));
  return false;
}

void Meter::Dispose(Object* object) {
  dying_.push_back(object);
  if (disposing_) return;
  disposing_ = true;
  while (!dying_.empty()) {
    Object* next = dying_.back();
    dying_.pop_back();
    delete next;
  }
  disposing_ = false;
}

void Meter::BreakCycles() {
  std::vector<Ref<CyclicObject>> all;
  for (CyclicObject* object = cyclic_; object != nullptr; object = object->next_) all.emplace_back(object);
  for (const Ref<CyclicObject>& object : all) object->ClearReferences();
}

}  // namespace skein::text::templates
