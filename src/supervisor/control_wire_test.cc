// SPDX-License-Identifier: Apache-2.0
#include "supervisor/control_wire.h"

#include <random>

#include <gtest/gtest.h>

#include "base/wire.h"

namespace skein::supervisor {
namespace {

RankSetup FullSetup() {
  RankSetup setup;
  setup.build = "b";
  setup.rank = 1;
  setup.incarnation = 3;
  setup.engine_descriptor = 4;
  setup.arena_descriptors = {5, 6};
  setup.mesh = {1, 2, 1, 4};
  setup.transport = "mpi";
  setup.body = "simulated";
  setup.model = "m.gguf";
  setup.identity = {12, 13};
  setup.threads = 3;
  setup.arithmetic = "bf16t";
  setup.kernels = "amx";
  setup.kv_type = "int8";
  setup.packed_cache = "folder";
  setup.context = 100;
  setup.step_tokens = 7;
  setup.fixed_step = true;
  setup.step_outputs = 8;
  setup.sequences = 9;
  setup.kv_tokens = 10;
  setup.kv_bytes = 11;
  setup.kv_contexts = 12;
  setup.requests = 13;
  setup.policy = "fair";
  setup.prefix_cache = false;
  setup.prefix_secret = {14, 15};
  setup.wire = "bf16";
  setup.by_slice = true;
  setup.vocabulary = 16;
  return setup;
}

// A rank would compute something else than its supervisor meant.
TEST(ControlWireTest, ASetupRoundTrips) {
  const auto decoded = DecodeControl(EncodeControl(FullSetup()));
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(std::get<RankSetup>(*decoded), FullSetup());
}

TEST(ControlWireTest, AnErrorKeepsItsCodeMessageAndField) {
  const Status status(Code::kLimit, "does not fit", "context");
  const auto decoded = DecodeControl(EncodeControl(FailedOf(status)));
  ASSERT_TRUE(decoded.ok());
  const Status back = StatusOf(std::get<FailedMessage>(*decoded));
  EXPECT_EQ(back.code(), status.code());
  EXPECT_EQ(back.message(), status.message());
  EXPECT_EQ(back.field(), status.field());
  for (const int code : {0, 200}) {
    FailedMessage message = FailedOf(status);
    message.code = static_cast<std::uint8_t>(code);
    EXPECT_EQ(StatusOf(message).code(), Code::kInternal) << "an error is never ok";
  }
}

// A rank gone mad would end the serving process.
TEST(ControlWireTest, DamageIsAnError) {
  std::minstd_rand random(7);
  for (const ControlMessage& message : {ControlMessage(FullSetup()), ControlMessage(HelloMessage{"s", "b", 1, HelloMessage::Purpose::kEngine}),
                                        ControlMessage(ReadyMessage{}), ControlMessage(BeatMessage{}), ControlMessage(ProgressMessage{1, 2})}) {
    const auto bytes = EncodeControl(message);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      EXPECT_FALSE(DecodeControl(std::span(bytes).first(i)).ok());
      auto damaged = bytes;
      damaged[i] ^= std::byte{0x40};
      EXPECT_FALSE(DecodeControl(damaged).ok());
    }
    const auto kind = wire::PeekFrame(bytes);
    std::vector<std::byte> body(bytes.begin() + wire::kFrameHeaderBytes, bytes.end() - 4);
    for (int round = 0; round < 2000 && !body.empty(); ++round) {
      auto hostile = body;
      for (int i = 0; i < 3; ++i) hostile[random() % hostile.size()] = static_cast<std::byte>(random() % 256);
      const auto decoded = DecodeControl(wire::MakeFrame(*kind, hostile));  // an error or a value
      if (decoded.ok()) {
        EXPECT_EQ(decoded->index(), message.index());
      }
    }
  }
}

}  // namespace
}  // namespace skein::supervisor
