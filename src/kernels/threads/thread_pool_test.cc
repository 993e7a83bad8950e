// SPDX-License-Identifier: Apache-2.0
#include "kernels/threads/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <numeric>
#include <vector>

namespace skein::kernels {
namespace {

TEST(ThreadPool, EveryWorkerRunsAndBarriersOrderPhases) {
  // Layers would read half-written activations.
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<int> first(threads), second(threads);
      pool.Run([&](Worker& worker) {
        first[worker.index()] = worker.index() + round;
        worker.Barrier();
        second[worker.index()] = std::accumulate(first.begin(), first.end(), 0);
      });
      for (int sum : second) ASSERT_EQ(sum, threads * (threads - 1) / 2 + threads * round);
    }
  }
}

TEST(ThreadPool, SharesCoverAllItemsOnce) {
  // A panel would be computed twice or never.
  ThreadPool pool(3);
  for (int items : {0, 1, 2, 3, 7, 18, 97}) {
    for (int unit : {1, 2, 4}) {
      std::vector<std::atomic<int>> even(items), taken(items);
      pool.Run([&](Worker& worker) {
        const auto share = worker.ShareOf(items, unit);
        for (int i = share.begin; i < share.end; ++i) even[i]++;
        for (auto range = worker.TakeFrom(0, items, unit); range.begin < range.end; range = worker.TakeFrom(0, items, unit)) {
          for (int i = range.begin; i < range.end; ++i) taken[i]++;
        }
      });
      for (int i = 0; i < items; ++i) {
        EXPECT_EQ(even[i], 1);
        EXPECT_EQ(taken[i], 1);
      }
    }
  }
}

TEST(ThreadPool, IdleUsesNoCpu) {
  // An idle server would burn a core for ever.
  ThreadPool pool(2);
  pool.Run([](Worker&) {});
  const timespec pause{0, 50'000'000};
  nanosleep(&pause, nullptr);  // past the spinning
  const std::clock_t before = std::clock();
  nanosleep(&pause, nullptr);
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 100);
}

}  // namespace
}  // namespace skein::kernels
