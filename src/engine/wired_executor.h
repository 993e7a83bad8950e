// SPDX-License-Identifier: Apache-2.0
//
// For tests: an executor, a client's request and a sink whose every message goes through its wire form and must come out
// equal, so that everything tested in one process would also work between two.
#pragma once

#include <memory>
#include <utility>

#include "base/check.h"
#include "engine/engine_client.h"
#include "engine/engine_wire.h"
#include "engine/executor.h"
#include "scheduler/step_wire.h"

namespace skein::engine {

class WiredExecutor final : public Executor {
 public:
  explicit WiredExecutor(std::unique_ptr<Executor> inner) : inner_(std::move(inner)) {}

  const ExecutorLimits& limits() const override { return inner_->limits(); }
  void Submit(const scheduler::StepPlan& plan) override {
    const auto decoded = scheduler::DecodePlan(scheduler::EncodePlan(plan));
    SKEIN_CHECK(decoded.ok());
    SKEIN_CHECK(*decoded == plan);
    inner_->Submit(*decoded);
  }
  scheduler::StepResult Wait() override {
    const scheduler::StepResult result = inner_->Wait();
    auto decoded = scheduler::DecodeResult(scheduler::EncodeResult(result));
    SKEIN_CHECK(decoded.ok());
    SKEIN_CHECK(*decoded == result);
    return std::move(*decoded);
  }

 private:
  std::unique_ptr<Executor> inner_;
};

// The message after a trip over the wire.
template <typename T>
T OverTheWire(T message) {
  auto decoded = DecodeMessage(EncodeMessage(message));
  SKEIN_CHECK(decoded.ok());
  T* value = std::get_if<T>(&*decoded);
  SKEIN_CHECK(value != nullptr);
  SKEIN_CHECK(*value == message);
  return std::move(*value);
}

class WiredSink final : public TokenSink {
 public:
  explicit WiredSink(std::shared_ptr<TokenSink> inner) : inner_(std::move(inner)) {}

  bool HasRoom() const override { return inner_->HasRoom(); }
  void OnPrompt(PromptEvent event) override { inner_->OnPrompt(OverTheWire(std::move(event))); }
  void OnToken(TokenEvent event) override { inner_->OnToken(OverTheWire(std::move(event))); }
  void OnFinished(FinishedEvent event) override { inner_->OnFinished(OverTheWire(std::move(event))); }

 private:
  std::shared_ptr<TokenSink> inner_;
};

}  // namespace skein::engine
