// SPDX-License-Identifier: Apache-2.0
#include "base/log_writer.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>

#include "base/output_file.h"
#include "base/thread_without_signals.h"

namespace skein {

struct LogWriter::State {
  State(int d, std::size_t b) : descriptor(d), bytes_max(b) {}
  const int descriptor;
  const std::size_t bytes_max;
  std::mutex mutex;
  std::condition_variable changed;
  // Under mutex:
  std::string waiting;
  std::uint64_t dropped = 0;
  bool writing = false;
  bool ending = false;
};

LogWriter::LogWriter(int descriptor, std::size_t bytes_max) : state_(std::make_shared<State>(descriptor, bytes_max)) {
  ThreadWithoutSignals([state = state_] { Run(state); }).detach();
}

LogWriter::~LogWriter() {
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, std::chrono::seconds(1), [this] { return state_->waiting.empty() && !state_->writing; });
}

void LogWriter::Push(std::string line) {
  const std::lock_guard lock(state_->mutex);
  if (state_->waiting.size() + line.size() > state_->bytes_max) {
    ++state_->dropped;
    return;
  }
  state_->waiting += line;
  state_->changed.notify_all();
}

void LogWriter::Run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->ending || !state->waiting.empty(); });
    if (state->waiting.empty()) return;
    std::string lines = std::exchange(state->waiting, {});
    if (const std::uint64_t dropped = std::exchange(state->dropped, 0); dropped > 0) {
      lines += fmt::format("skein: note: {} lines of the log were dropped, its reader was too slow\n", dropped);
    }
    state->writing = true;
    lock.unlock();
    // Nobody is left to be told when the log itself cannot be written.
    static_cast<void>(WriteAll(state->descriptor, std::as_bytes(std::span(lines.data(), lines.size())), "the log").ok());
    lock.lock();
    state->writing = false;
    state->changed.notify_all();
  }
}

}  // namespace skein
