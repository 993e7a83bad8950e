// SPDX-License-Identifier: Apache-2.0
#include "server/openai/text_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

namespace skein::server {
namespace {

// Keeps a pool of one thread busy until Open.
class Gate {
 public:
  explicit Gate(TextPool& pool) {
    EXPECT_TRUE(pool.Submit([this] {
                      entered_.set_value();
                      opened_.get_future().wait();
                    }).ok());
    entered_.get_future().wait();
  }
  void Open() { opened_.set_value(); }

 private:
  std::promise<void> entered_, opened_;
};

TEST(TextPool, RunsEverythingThatItTook) {
  // A request whose work is lost never gets an answer.
  std::atomic<int> done = 0;
  std::promise<void> all;
  TextPool pool({.threads = 2, .queue = 100});
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(pool.Submit([&] {
                      if (done.fetch_add(1) == 99) all.set_value();
                    }).ok());
  }
  all.get_future().wait();
  EXPECT_EQ(done.load(), 100);
}

TEST(TextPool, AFullQueueSaysSo) {
  // A queue without end turns overload into memory and into answers that nobody waits for any more.
  TextPool pool({.threads = 1, .queue = 2});
  Gate gate(pool);
  std::atomic<int> done = 0;
  EXPECT_TRUE(pool.Submit([&] { ++done; }).ok());
  EXPECT_TRUE(pool.Submit([&] { ++done; }).ok());
  EXPECT_EQ(pool.Submit([&] { ++done; }).code(), Code::kUnavailable);
  EXPECT_EQ(pool.waiting(), 2u);
  gate.Open();
  while (pool.waiting() > 0) std::this_thread::yield();
  pool.Stop();
  EXPECT_EQ(done.load(), 2);
}

TEST(TextPool, AbandonedWorkIsNotBegun) {
  // A client that hangs up must not keep others waiting behind its megabytes.
  TextPool pool({.threads = 1, .queue = 8});
  Gate gate(pool);
  std::stop_source gone;
  std::atomic<bool> abandoned_ran = false;
  std::promise<void> other_ran;
  EXPECT_TRUE(pool.Submit([&] { abandoned_ran = true; }, gone.get_token()).ok());
  EXPECT_TRUE(pool.Submit([&] { other_ran.set_value(); }).ok());
  gone.request_stop();
  gate.Open();
  other_ran.get_future().wait();
  EXPECT_FALSE(abandoned_ran.load());
}

TEST(TextPool, StopDropsWhatWaits) {
  // Shutting down must neither hang on a long queue nor leak what its work holds.
  auto held = std::make_shared<int>(1);
  TextPool pool({.threads = 1, .queue = 8});
  Gate gate(pool);
  EXPECT_TRUE(pool.Submit([held] {}).ok());
  std::thread stopping([&] { pool.Stop(); });
  while (pool.waiting() > 0) std::this_thread::yield();
  gate.Open();
  stopping.join();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(pool.Submit([] {}).code(), Code::kUnavailable);
}

}  // namespace
}  // namespace skein::server
