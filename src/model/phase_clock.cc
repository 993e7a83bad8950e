// SPDX-License-Identifier: Apache-2.0
#include "model/phase_clock.h"

#include <chrono>
#include <numeric>

namespace skein::model {
namespace {

constexpr std::size_t kSpansMax = std::size_t{1} << 18;       // some 500 steps of 30 layers, 8 MB
constexpr std::size_t kStepSpansMax = std::size_t{1} << 13;   // of one step; further ones are only added up

std::int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string_view NameOf(Phase phase) {
  constexpr std::array<std::string_view, kPhases> kNames = {"embed",  "prepare", "qkv",  "rope+store", "attention",   "o",
                                                            "gate_up", "down",    "head", "sample",     "communicate", "barrier"};
  return kNames[static_cast<std::size_t>(phase)];
}

double PhaseClock::Totals::Unmarked() const {
  if (step_ns <= 0) return 0;
  const std::int64_t marked = std::accumulate(phase_ns.begin(), phase_ns.end(), std::int64_t{0});
  return 1 - static_cast<double>(marked) / static_cast<double>(step_ns);
}

PhaseClock::PhaseClock() {
  step_spans_.reserve(kStepSpansMax);
  profile_.spans.reserve(kSpansMax);
}

void PhaseClock::BeginStep(std::int32_t tokens, bool prompt) {
  open_ = true;
  prompt_ = prompt;
  layer_ = -1;
  tokens_ = tokens;
  phase_ns_ = {};
  step_spans_.clear();
  begin_ns_ = last_ns_ = NowNs();
}

void PhaseClock::Skip() { last_ns_ = NowNs(); }

void PhaseClock::Mark(Phase phase) {
  if (!open_) return;
  const std::int64_t now = NowNs();
  phase_ns_[static_cast<std::size_t>(phase)] += now - last_ns_;
  if (step_spans_.size() < kStepSpansMax) step_spans_.push_back({last_ns_, now - last_ns_, layer_, phase});
  last_ns_ = now;
}

void PhaseClock::EndStep() {
  if (!open_) return;
  open_ = false;
  const std::int64_t step_ns = NowNs() - begin_ns_;
  const std::lock_guard lock(mutex_);
  Totals& totals = prompt_ ? profile_.prompts : profile_.answers;
  ++totals.steps;
  totals.tokens += tokens_;
  totals.step_ns += step_ns;
  for (std::size_t i = 0; i < phase_ns_.size(); ++i) totals.phase_ns[i] += phase_ns_[i];
  if (profile_.spans.size() + step_spans_.size() > kSpansMax) {
    ++profile_.steps_left_out;
    return;
  }
  profile_.spans.insert(profile_.spans.end(), step_spans_.begin(), step_spans_.end());
}

PhaseClock::Profile PhaseClock::Read() const {
  const std::lock_guard lock(mutex_);
  return profile_;
}

}  // namespace skein::model
