// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_wire.h"

#include <random>

#include <gtest/gtest.h>

#include "base/wire.h"

namespace skein::engine {
namespace {

std::vector<Message> Examples() {
  RequestSpec request{.request = {4}, .epoch = 2, .tokens = {1, 2, 3}, .prompt_tokens = 2, .max_tokens = 8};
  request.min_tokens = 1;
  request.choice = 5;
  request.sampling.bias = {{1, -2.0f}};
  request.sampling.seed = 99;
  request.stop_tokens = {2, 7};
  request.ignore_stop_tokens = true;
  request.top_logprobs = 3;
  request.logprobs = true;
  request.prompt_output = PromptOutput::kScores;
  request.priority = -1;
  request.deadline_ns = 77;
  request.tenant = "tenant";
  request.cache_salt = "salt";
  return {request,
          CancelMessage{.request = {4}},
          StatsMessage{},
          EngineStats{.steps = 1, .step_ns = 21, .prompt_tokens = 2, .generated_tokens = 3, .step_tokens = {5, 0, 7}, .preemptions = 4, .refusals = 13, .running = 5, .waiting = 6,
                      .paused = 1, .blocks_total = 7, .blocks_held = 8, .blocks_cached = 9, .block_tokens = 16,
                      .places_unused = 10, .prefix_queries = 11, .prefix_hits = 12, .restarts = 14, .replays = 15},
          PromptEvent{.request = {4}, .epoch = 2, .first_position = 16, .scores = {{3, -0.25f, {{3, -0.25f}}}}, .logits = {1.5f}, .hidden = {-0.5f, 2.0f}},
          TokenEvent{.request = {4}, .epoch = 2, .index = 9, .token = {3, -0.25f, {{3, -0.25f}, {1, -2.0f}}}},
          FinishedEvent{.request = {4}, .epoch = 2, .reason = FinishReason::kError, .error = "no", .refused = true, .prompt_tokens = 2,
                        .cached_tokens = 1, .generated_tokens = 3, .queued_ns = 4, .first_token_ns = 5, .total_ns = 6},
          CreditMessage{.request = {4}, .epoch = 2, .events = 16}};
}

// A router in another process would see another answer than the engine gave.
TEST(EngineWireTest, EveryMessageRoundTrips) {
  ASSERT_EQ(Examples().size(), std::variant_size_v<Message>);
  for (const Message& message : Examples()) {
    const auto decoded = DecodeMessage(EncodeMessage(message));
    ASSERT_TRUE(decoded.ok()) << message.index() << ": " << decoded.status().message();
    EXPECT_EQ(*decoded, message) << message.index();
  }
}

// A damaged or hostile message would end the serving process.
TEST(EngineWireTest, DamageIsAnError) {
  std::minstd_rand random(5);
  for (const Message& message : Examples()) {
    const auto bytes = EncodeMessage(message);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      EXPECT_FALSE(DecodeMessage(std::span(bytes).first(i)).ok());
      auto damaged = bytes;
      damaged[i] ^= std::byte{0x40};
      EXPECT_FALSE(DecodeMessage(damaged).ok());
    }
    const auto kind = wire::PeekFrame(bytes);
    ASSERT_TRUE(kind.ok());
    const std::span<const std::byte> body =
        std::span(bytes).subspan(wire::kFrameHeaderBytes, bytes.size() - wire::kFrameHeaderBytes - 4);
    for (int round = 0; round < 3000 && !body.empty(); ++round) {
      std::vector<std::byte> hostile(body.begin(), body.end());
      for (int i = 0; i < 3; ++i) hostile[random() % hostile.size()] = static_cast<std::byte>(random() % 256);
      const auto decoded = DecodeMessage(wire::MakeFrame(*kind, hostile));  // right checksum: an error or a value
      if (decoded.ok()) {
        EXPECT_EQ(decoded->index(), message.index());
      }
    }
    EXPECT_FALSE(DecodeMessage(wire::MakeFrame({kind->magic, kind->version, 0}, body)).ok());
    EXPECT_FALSE(DecodeMessage(wire::MakeFrame({kind->magic, kind->version, 200}, body)).ok());
  }
}

}  // namespace
}  // namespace skein::engine
