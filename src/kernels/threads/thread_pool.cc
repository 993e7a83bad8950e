// SPDX-License-Identifier: Apache-2.0
#include "kernels/threads/thread_pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <fstream>
#include <string>

#include "base/check.h"
#include "kernels/threads/pause.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace skein::kernels {
namespace {

constexpr auto kSpinInRegion = std::chrono::microseconds(50);
constexpr auto kSpinBetweenRegions = std::chrono::microseconds(200);

void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t while_value) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, while_value, nullptr, nullptr, 0);
}

// Changes `word` by one and wakes who sleeps on it. `sleepers` is counted before the word is looked at a last time and
// read after it was changed, so that the system call is only made when somebody may need it.
void AdvanceAndWake(std::atomic<std::uint32_t>& word, std::atomic<std::uint32_t>& sleepers) {
  word.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// Waits until `word` differs from `value`: spins for `spin`, then sleeps. Returns what it found.
std::uint32_t WaitForChange(std::atomic<std::uint32_t>& word, std::atomic<std::uint32_t>& sleepers, std::uint32_t value,
                            std::chrono::microseconds spin) {
  if (spin.count() > 0) {
    const auto deadline = std::chrono::steady_clock::now() + spin;
    do {
      for (int i = 0; i < 128; ++i) {
        const std::uint32_t now = word.load(std::memory_order_acquire);
        if (now != value) return now;
        Pause();
      }
    } while (std::chrono::steady_clock::now() < deadline);
  }
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  std::uint32_t now = word.load(std::memory_order_seq_cst);
  while (now == value) {
    FutexWait(word, value);
    now = word.load(std::memory_order_seq_cst);
  }
  sleepers.fetch_sub(1, std::memory_order_relaxed);
  return now;
}

// Flushes denormals while it lives.
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040u); }
  ~FlushDenormals() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
#endif
};

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(threads), may_spin_(threads <= AvailableCores()) {
  SKEIN_CHECK(threads >= 1 && threads <= 1024);
  for (int index = 1; index < threads; ++index) workers_.emplace_back([this, index] { WorkerMain(index); });
}

ThreadPool::~ThreadPool() {
  leaving_.store(true, std::memory_order_relaxed);
  AdvanceAndWake(epoch_.value, sleepers_.value);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunRegion(Region region, void* context) {
  FlushDenormals flush;
  region_ = region;
  context_ = context;
  for (PaddedCounter& counter : counters_) counter.value.store(0, std::memory_order_relaxed);
  if (threads_ > 1) AdvanceAndWake(epoch_.value, sleepers_.value);
  Worker self(*this, 0, threads_);
  region(context, self);
  self.Barrier();  // nobody may still be inside when the caller's function goes out of scope
}

void ThreadPool::WorkerMain(int index) {
  FlushDenormals flush;
  std::uint32_t seen = 0;
  for (;;) {
    seen = WaitForChange(epoch_.value, sleepers_.value, seen, may_spin_ ? kSpinBetweenRegions : std::chrono::microseconds(0));
    if (leaving_.load(std::memory_order_relaxed)) return;
    Worker self(*this, index, threads_);
    region_(context_, self);
    self.Barrier();
  }
}

void Worker::Barrier() {
  if (count_ == 1) return;
  std::atomic<std::uint32_t>& generation = pool_.generation_.value;
  const std::uint32_t mine = generation.load(std::memory_order_relaxed);
  if (pool_.arrived_.value.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(count_)) {
    pool_.arrived_.value.store(0, std::memory_order_relaxed);
    AdvanceAndWake(generation, pool_.sleepers_.value);
    return;
  }
  WaitForChange(generation, pool_.sleepers_.value, mine, pool_.may_spin_ ? kSpinInRegion : std::chrono::microseconds(0));
}

Worker::Range Worker::ShareOf(int items, int unit) const {
  const int units = (items + unit - 1) / unit;
  const auto cut = [&](int part) {
    return std::min(items, static_cast<int>(static_cast<long long>(units) * part / count_) * unit);
  };
  return {cut(index_), cut(index_ + 1)};
}

Worker::Range Worker::TakeFrom(int phase, int items, int grain) {
  const auto begin = pool_.counters_[phase].value.fetch_add(static_cast<std::uint32_t>(grain), std::memory_order_relaxed);
  if (begin >= static_cast<std::uint32_t>(items)) return {items, items};
  return {static_cast<int>(begin), std::min(items, static_cast<int>(begin) + grain)};
}

void Worker::ResetCounter(int phase) { pool_.counters_[phase].value.store(0, std::memory_order_relaxed); }

int AvailableCores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  int cores = 1;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) cores = std::max(1, CPU_COUNT(&mask));
  std::ifstream quota("/sys/fs/cgroup/cpu.max");
  std::string limit;
  double period = 0;
  if (quota >> limit >> period && limit != "max" && period > 0) {
    const double allowed = std::ceil(std::strtod(limit.c_str(), nullptr) / period);
    if (allowed >= 1) cores = std::min(cores, static_cast<int>(allowed));
  }
  return cores;
}

}  // namespace skein::kernels
