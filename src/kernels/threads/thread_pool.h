// SPDX-License-Identifier: Apache-2.0
//
// ThreadPool runs one function on all workers at once (a parallel region), with barriers inside it. The calling thread
// is worker 0, so a pool of one has no thread of its own. Inside a region waiting spins for about one wake-up, then
// sleeps on a futex; between regions workers spin a little longer while work keeps coming, then sleep, so an idle engine
// uses no CPU. There is no spinning at all when there are more workers than cores.
//
// Every worker flushes denormals (FTZ, DAZ): the bits of results depend on it. Run sets it for the calling thread for
// the time of the region and restores it.
//
// Thread rule: one thread at a time calls Run. Lives as long as the engine that owns it; no globals.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace skein::kernels {

class ThreadPool;

// One worker's view of a parallel region. Cheap, passed by reference.
class Worker {
 public:
  int index() const { return index_; }
  int count() const { return count_; }
  // Returns when all workers of the region have called it as often.
  void Barrier();
  // This worker's even share [begin, end) of `items`, in units of `unit`.
  struct Range {
    int begin, end;
  };
  Range ShareOf(int items, int unit = 1) const;
  // Takes up to `grain` items of a common counter 0 … items. Returns an empty range when none is left.
  // `phase` picks one of a few counters; a counter must be reset (ResetCounter) behind a barrier before it is used again.
  Range TakeFrom(int phase, int items, int grain);
  void ResetCounter(int phase);

 private:
  friend class ThreadPool;
  Worker(ThreadPool& pool, int index, int count) : pool_(pool), index_(index), count_(count) {}
  ThreadPool& pool_;
  int index_;
  int count_;
};

class ThreadPool {
 public:
  static constexpr int kPhases = 8;

  // Requires: 1 <= threads <= 1024.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  // Calls function(worker) on every worker and returns when all have returned.
  template <typename Function>
  void Run(Function&& function) {
    RunRegion([](void* context, Worker& worker) { (*static_cast<std::remove_reference_t<Function>*>(context))(worker); },
              &function);
  }

 private:
  friend class Worker;
  using Region = void (*)(void* context, Worker& worker);
  void RunRegion(Region region, void* context);
  void WorkerMain(int index);

  struct alignas(64) PaddedCounter {
    std::atomic<std::uint32_t> value{0};
  };
  int threads_;
  bool may_spin_;
  Region region_ = nullptr;
  void* context_ = nullptr;
  PaddedCounter epoch_;            // counts regions; the last one is the order to leave
  std::atomic<bool> leaving_{false};
  PaddedCounter arrived_;          // of the current barrier
  PaddedCounter generation_;       // of barriers
  PaddedCounter sleepers_;         // workers that sleep or are about to
  PaddedCounter counters_[kPhases];
  std::vector<std::thread> workers_;
};

// Cores that this process may use: its affinity mask cut by the cgroup's CPU quota, at least 1.
int AvailableCores();

}  // namespace skein::kernels
