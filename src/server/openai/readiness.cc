// SPDX-License-Identifier: Apache-2.0
#include "server/openai/readiness.h"

#include <chrono>
#include <utility>
#include <variant>

namespace skein::server {

Readiness::~Readiness() {
  if (canary_ != nullptr) canary_->Detach();
}

void Readiness::Ask(std::function<void(bool)> told) {
  if (serving_.draining || !serving_.engine.Health().ok()) return told(false);
  const std::int64_t now_ns = serving_.clock.NowNs();
  if (const std::uint64_t steps = serving_.engine.Stats().steps; steps != last_steps_) {
    last_steps_ = steps;
    last_good_ns_ = now_ns;
  }
  if (now_ns - last_good_ns_ < kFreshNs) return told(true);
  asked_.push_back(std::move(told));
  if (canary_ == nullptr) SendCanary();
}

void Readiness::SendCanary() {
  canary_ = std::make_shared<ChoiceSink>(serving_.mailbox, *this, 0);
  engine::RequestSpec spec;
  spec.request = serving_.NextRequest();
  spec.tokens = {0};
  spec.prompt_tokens = 1;
  spec.max_tokens = 0;
  const RequestId request = spec.request;
  if (!serving_.engine.Submit(std::move(spec), canary_).ok()) return Tell(false);
  patience_ = serving_.io.after(std::chrono::nanoseconds(kPatienceNs), [this, count = ++canary_count_, request] {
    if (canary_ == nullptr || count != canary_count_) return;
    serving_.engine.Cancel(request);
    // Behind a long queue a canary may wait although steps are made.
    Tell(serving_.engine.Stats().steps != last_steps_);
  });
}

void Readiness::OnEvent(std::size_t, engine::SinkEvent event) {
  const auto* finished = std::get_if<engine::FinishedEvent>(&event);
  if (finished != nullptr) Tell(finished->reason == engine::FinishReason::kLength);
}

void Readiness::Tell(bool ready) {
  canary_->Detach();
  canary_ = nullptr;
  last_steps_ = serving_.engine.Stats().steps;
  if (ready) last_good_ns_ = serving_.clock.NowNs();
  for (const std::function<void(bool)>& told : std::exchange(asked_, {})) told(ready && !serving_.draining && serving_.engine.Health().ok());
}

}  // namespace skein::server
