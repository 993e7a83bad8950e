// SPDX-License-Identifier: Apache-2.0
//
// Readiness answers whether the engine can make a step. While it makes some anyway that is known; when it has been
// idle for a while, a canary is sent: a request of one token that asks for no answer, so it counts as no generated
// token. Its result holds for kFresh.
//
// Owned by the I/O thread. Lives as long as the server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "server/openai/mailbox.h"
#include "server/openai/serving.h"

namespace skein::server {

class Readiness final : public ChoiceOwner {
 public:
  // `serving` outlives it.
  explicit Readiness(Serving& serving) : serving_(serving) {}
  ~Readiness() override;

  // Calls `told` with whether work can be done: now, or when the canary is back or has taken too long.
  void Ask(std::function<void(bool ready)> told);

  void OnEvent(std::size_t choice, engine::SinkEvent event) override;
  void OnBatchEnd() override {}

 private:
  static constexpr std::int64_t kFreshNs = 10'000'000'000;
  static constexpr std::int64_t kPatienceNs = 2'000'000'000;

  void SendCanary();
  void Tell(bool ready);

  Serving& serving_;
  std::vector<std::function<void(bool)>> asked_;  // who waits for the canary
  std::shared_ptr<ChoiceSink> canary_;            // while it is out
  Timer patience_;                                // with it
  std::uint64_t canary_count_ = 0;
  std::int64_t last_good_ns_ = -kFreshNs;
  std::uint64_t last_steps_ = 0;
};

}  // namespace skein::server
