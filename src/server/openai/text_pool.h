// SPDX-License-Identifier: Apache-2.0
//
// TextPool runs work on text that takes longer than the I/O thread may be kept: rendering templates, tokenising,
// parsing large bodies. A few threads of lower priority than the rest of the process, and a bounded queue; when that
// is full, Submit says so.
//
// Thread rule: Submit by any thread. Work runs on a thread of the pool, and what it captured is freed there, or by
// Stop; it must not need another thread for that.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/status.h"

namespace skein::server {

struct TextPoolOptions {
  int threads = 0;          // 0: two, or one on a machine of one core
  std::size_t queue = 256;  // pieces of work that may wait
  // Added to the threads' nice value, so that steps of the engine go first: both of the engine's threads wait for the one
  // that was held up. 5 leaves a fourth of a core to a text, 15 a thirtieth (bench/serving/bombs.py).
  int nice = 15;
};

class TextPool {
 public:
  explicit TextPool(const TextPoolOptions& options = {});
  ~TextPool();  // Stop
  TextPool(const TextPool&) = delete;
  TextPool& operator=(const TextPool&) = delete;

  // Work is not begun any more once `abandoned` is requested: its client has gone. Errors: kUnavailable when the queue
  // is full or the pool stopped; `work` is then dropped.
  Status Submit(std::function<void()> work, std::stop_token abandoned = {});
  // Waits for the work that runs, drops what waits, and joins. Calling it again does nothing.
  void Stop();

  std::size_t waiting() const;

 private:
  struct Piece {
    std::function<void()> work;
    std::stop_token abandoned;
  };
  void Loop();

  const TextPoolOptions options_;
  std::vector<std::thread> threads_;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Piece> queue_;  // under mutex_
  bool stopping_ = false;    // under mutex_
};

}  // namespace skein::server
