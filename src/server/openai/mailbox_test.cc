// SPDX-License-Identifier: Apache-2.0
#include "server/openai/mailbox.h"

#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace skein::server {
namespace {

class Reader final : public ChoiceOwner {
 public:
  void OnEvent(std::size_t choice, engine::SinkEvent event) override {
    choices.push_back(choice);
    if (const auto* token = std::get_if<engine::TokenEvent>(&event)) tokens.push_back(token->index);
    if (on_event) on_event();
  }
  void OnBatchEnd() override { ++batches; }

  std::vector<std::size_t> choices;
  std::vector<std::int32_t> tokens;
  int batches = 0;
  std::function<void()> on_event;
};

class MailboxTest : public testing::Test {
 protected:
  // Letters that nobody took hold their sinks, and those the mailbox: as the server does at its end.
  void TearDown() override { mailbox_->Close(); }

  // What was posted, run as the I/O thread would.
  void RunPosted() {
    std::vector<std::function<void()>> taken;
    {
      const std::lock_guard lock(mutex_);
      taken.swap(posted_);
    }
    for (const auto& work : taken) work();
  }
  std::size_t posted() {
    const std::lock_guard lock(mutex_);
    return posted_.size();
  }

  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
  int wakes_ = 0;
  const std::shared_ptr<Mailbox> mailbox_ = Mailbox::Create(
      [this](std::function<void()> work) {
        const std::lock_guard lock(mutex_);
        posted_.push_back(std::move(work));
      },
      [this] { ++wakes_; });
  Reader reader_;
};

TEST_F(MailboxTest, AStepOfManyTokensIsOnePost) {
  // A wake-up of the I/O thread for every token would cost more than the tokens.
  const auto a = std::make_shared<ChoiceSink>(mailbox_, reader_, 0), b = std::make_shared<ChoiceSink>(mailbox_, reader_, 1);
  for (std::int32_t i = 0; i < 5; ++i) {
    a->OnToken({.index = i});
    b->OnToken({.index = i});
  }
  EXPECT_EQ(posted(), 1u);
  RunPosted();
  EXPECT_EQ(reader_.tokens, (std::vector<std::int32_t>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4}));
  a->OnToken({.index = 5});
  EXPECT_EQ(posted(), 1u);
}

TEST_F(MailboxTest, AFullSinkHasNoRoomAndTheEngineIsToldWhenItHas) {
  // Memory would grow while the I/O thread is busy, or a sequence would sleep for ever.
  const auto sink = std::make_shared<ChoiceSink>(mailbox_, reader_, 0);
  for (int i = 0; i < ChoiceSink::kUnreadMax; ++i) {
    EXPECT_TRUE(sink->HasRoom());
    sink->OnToken({});
  }
  EXPECT_FALSE(sink->HasRoom());
  RunPosted();
  EXPECT_TRUE(sink->HasRoom());
  EXPECT_EQ(wakes_, 1);
  sink->Hold(true);
  EXPECT_FALSE(sink->HasRoom());
  sink->Hold(false);
  EXPECT_TRUE(sink->HasRoom());
}

TEST_F(MailboxTest, WhoHasLeftHearsNothing) {
  // Tokens of a request that has ended would reach freed memory.
  const auto sink = std::make_shared<ChoiceSink>(mailbox_, reader_, 0);
  reader_.on_event = [&sink] { sink->Detach(); };
  sink->OnToken({});
  sink->OnToken({});
  RunPosted();
  EXPECT_EQ(reader_.choices.size(), 1u);
  EXPECT_EQ(reader_.batches, 0);
}

TEST_F(MailboxTest, AClosedMailboxTakesNothing) {
  // An engine that ends later than the server would post to a thread that is gone.
  const auto sink = std::make_shared<ChoiceSink>(mailbox_, reader_, 0);
  sink->OnToken({});
  mailbox_->Close();
  sink->OnToken({});
  RunPosted();
  EXPECT_TRUE(reader_.choices.empty());
}

TEST_F(MailboxTest, NothingIsLostBetweenThreads) {
  // Words would be missing from answers, now and then.
  constexpr std::int32_t kCount = 20'000;
  const auto sink = std::make_shared<ChoiceSink>(mailbox_, reader_, 0);
  std::thread engine([&] {
    for (std::int32_t i = 0; i < kCount; ++i) sink->OnToken({.index = i});
  });
  while (reader_.tokens.size() < kCount) RunPosted();
  engine.join();
  for (std::int32_t i = 0; i < kCount; ++i) ASSERT_EQ(reader_.tokens[static_cast<std::size_t>(i)], i);
}

}  // namespace
}  // namespace skein::server
