// SPDX-License-Identifier: Apache-2.0
#include "server/openai/text_pool.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace skein::server {
namespace {

int ThreadsOf(const TextPoolOptions& options) {
  if (options.threads > 0) return options.threads;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 2u));
}

}  // namespace

TextPool::TextPool(const TextPoolOptions& options) : options_(options) {
  SKEIN_CHECK(options_.queue > 0);
  const int count = ThreadsOf(options_);
  threads_.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Loop(); });
}

TextPool::~TextPool() { Stop(); }

Status TextPool::Submit(std::function<void()> work, std::stop_token abandoned) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return Status(Code::kUnavailable, "the server is shutting down");
    if (queue_.size() >= options_.queue) {
      return Status(Code::kUnavailable, fmt::format("{} requests wait to be read, as many as may; try again later", queue_.size()));
    }
    queue_.push_back({std::move(work), std::move(abandoned)});
  }
  arrived_.notify_one();
  return OkStatus();
}

void TextPool::Stop() {
  std::deque<Piece> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(queue_);
  }
  arrived_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

std::size_t TextPool::waiting() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

void TextPool::Loop() {
  // On Linux the nice value is a thread's own. Being refused is no harm.
  ::setpriority(PRIO_PROCESS, 0, ::getpriority(PRIO_PROCESS, 0) + options_.nice);
  for (;;) {
    Piece piece;
    {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      piece = std::move(queue_.front());
      queue_.pop_front();
    }
    if (!piece.abandoned.stop_requested()) piece.work();
  }
}

}  // namespace skein::server
