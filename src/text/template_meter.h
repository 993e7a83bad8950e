// SPDX-License-Identifier: Apache-2.0
//
// Budgets and Meter: what one rendering of a chat template may spend, and who counts it. A template comes from a
// model's file and is a program of a stranger: it may loop, recurse and grow strings. Every step, byte and level
// goes through the Meter of its rendering; the first thing that goes wrong is kept and everything after it is
// cheap and without effect, so callers look at failed() in loops and at the end rather than after each call.
//
// One Meter per rendering, used by one thread. It outlives every Object that it counts.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace skein::text {

// Limits of one rendering; exceeding one is an error of Code::kLimit.
struct TemplateBudgets {
  std::uint64_t steps = 5'000'000;          // statements, expressions, items, and work on long strings
  int depth = 1000;                         // nested evaluation, macro calls included
  std::size_t output_bytes = 16u << 20;     // of the rendered text, and of any one string on the way
  std::size_t memory_bytes = 96u << 20;     // of all values alive at once
  std::chrono::milliseconds time{500};      // by the steady clock
};

namespace templates {

class Object;
class CyclicObject;

class Meter {
 public:
  explicit Meter(const TemplateBudgets& budgets);
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;
  ~Meter();

  bool failed() const { return failed_; }
  const Status& status() const { return status_; }
  const TemplateBudgets& budgets() const { return budgets_; }

  // Keeps the first failure. The template itself is wrong (Error) or wants too much (Limit).
  void Error(std::string message) { Fail(Code::kInvalidArgument, std::move(message)); }
  void Limit(std::string message) { Fail(Code::kLimit, std::move(message)); }

  // Counts `count` steps; false when failed. Looks at the clock now and then.
  bool Step(std::uint64_t count = 1) {
    steps_ += count;
    if (failed_) return false;
    return steps_ < next_check_ || CheckSteps();
  }
  // Counts work on `bytes` of text.
  bool Work(std::size_t bytes) { return Step(1 + bytes / 256); }

  // True when `bytes` more could be held; fails otherwise. Asked before anything large is built.
  bool Reserve(std::uint64_t bytes);
  void AddBytes(std::size_t bytes) { live_bytes_ += bytes; }
  void RemoveBytes(std::size_t bytes) { live_bytes_ -= bytes; }
  std::size_t live_bytes() const { return live_bytes_; }

  // One level of nesting; Leave always follows. False (and failed) when too deep.
  bool Enter();
  void Leave() { --depth_; }

  // Destroys an object that nobody refers to any more, without recursion however deep its values nest.
  void Dispose(Object* object);
  // Cuts the references of all objects that can be part of a cycle, so that everything is freed.
  void BreakCycles();

 private:
  friend class CyclicObject;
  void Fail(Code code, std::string message);
  bool CheckSteps();

  const TemplateBudgets budgets_;
  const std::chrono::steady_clock::time_point deadline_;
  std::uint64_t steps_ = 0;
  std::uint64_t next_check_ = 0;
  std::size_t live_bytes_ = 0;
  int depth_ = 0;
  bool failed_ = false;
  bool disposing_ = false;
  Status status_;
  std::vector<Object*> dying_;
  CyclicObject* cyclic_ = nullptr;  // head of the list of all CyclicObjects alive
};

// Enter and Leave as a scope.
class DepthGuard {
 public:
  explicit DepthGuard(Meter& meter) : meter_(meter), ok_(meter.Enter()) {}
  ~DepthGuard() { meter_.Leave(); }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  bool ok() const { return ok_; }

 private:
  Meter& meter_;
  bool ok_;
};

}  // namespace templates
}  // namespace skein::text
