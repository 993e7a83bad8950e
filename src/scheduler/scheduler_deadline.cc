// SPDX-License-Identifier: Apache-2.0
//
// Who is refused when it comes, since it could not make its deadline or would make another one late.
#include <algorithm>

#include <fmt/format.h>

#include "scheduler/forecast.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"

namespace skein::scheduler {
namespace {

// Of the time until a predicted end, what must be to spare: predictions are not exact.
constexpr double kOwnMargin = 0.04, kOthersMargin = 0.02;
// Of those that wait, so many are looked at: a bound for the time that this takes.
constexpr std::size_t kWaitingMax = 512;

}  // namespace

// Whether all can make their deadlines with the newcomer among them, as far as steps can be predicted. Those that would be
// late without it too do not count.
Status Scheduler::CheckDeadline(Sequence& newcomer, std::int64_t now_ns) {
  const std::int64_t due_ns = newcomer.state.deadline_ns;
  if (due_ns == 0) return OkStatus();
  FindPrefix(newcomer);
  struct Item {
    const Sequence* sequence;
    ForecastSequence with, without;
  };
  std::vector<Item> items;
  const auto add = [&](const Sequence& sequence, std::int64_t position) {
    const std::int64_t left = std::min<std::int64_t>(std::max(0, sequence.state.max_tokens - sequence.state.generated()),
                                                     capacity_ - sequence.size());
    const bool answers = sequence.running && sequence.answers_at(sequence.computed);
    const ForecastSequence start{.position = position,
                                 .prompt_left = answers ? 0 : sequence.size() - position,
                                 .outputs_left = left,
                                 .runs = sequence.running};
    items.push_back({&sequence, start, start});
  };
  for (const Sequence* sequence : running_) add(*sequence, sequence->computed);
  Sort(waiting_);
  for (std::size_t i = 0; i < std::min(waiting_.size(), kWaitingMax); ++i) add(*waiting_[i], 0);
  add(newcomer, static_cast<std::int64_t>(found_.size()) * limits_.block_tokens);
  std::ranges::sort(items, [this](const Item& a, const Item& b) {
    return policy_.IsBefore(a.sequence->candidate, b.sequence->candidate);
  });
  const ForecastLimits limits{.step_tokens = limits_.step_tokens,
                              .step_target_ns = limits_.step_target_ns,
                              .sequences = limits_.sequences,
                              .places = std::int64_t{limits_.blocks} * limits_.block_tokens};
  std::vector<ForecastSequence*> order;
  for (Item& item : items) order.push_back(&item.with);
  Forecast(order, limits, cost_, now_ns);
  const auto due = [](const Item& item) { return item.sequence->state.deadline_ns; };
  const auto own = std::ranges::find(items, &newcomer, &Item::sequence);
  const auto with_margin = [now_ns](std::int64_t end_ns, double margin) {
    return end_ns + static_cast<std::int64_t>(margin * static_cast<double>(end_ns - now_ns));
  };
  const std::int64_t end_ns = with_margin(own->with.end_ns, kOwnMargin);
  if (end_ns > due_ns) {
    return Status(Code::kUnavailable,
                  fmt::format("the request would take until {} ms after its deadline; ask for fewer tokens, give it more "
                              "time, or try again later",
                              (end_ns - due_ns) / 1'000'000));
  }
  const auto late_with = [&](const Item& item) {
    return due(item) != 0 && with_margin(item.with.end_ns, kOthersMargin) > due(item);
  };
  if (std::ranges::none_of(items, late_with)) return OkStatus();
  order.clear();
  for (Item& item : items) {
    if (item.sequence != &newcomer) order.push_back(&item.without);
  }
  Forecast(order, limits, cost_, now_ns);
  const auto made_late = [&](const Item& item) { return late_with(item) && item.without.end_ns <= due(item); };
  if (std::ranges::none_of(items, made_late)) return OkStatus();
  return Status(Code::kUnavailable,
                "the request would make another one miss its deadline; give it more time, or try again later");
}

}  // namespace skein::scheduler
