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
  std::uint64_t lines = 0;   // of waiting
  std::uint64_t lost = 0;    // since the start
  std::uint64_t unsaid = 0;  // of lost, what the log does not tell of yet
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
    ++state_->lost;
    ++state_->unsaid;
    return;
  }
  state_->waiting += line;
  ++state_->lines;
  state_->changed.notify_all();
}

std::uint64_t LogWriter::lost() const {
  const std::lock_guard lock(state_->mutex);
  return state_->lost;
}

void LogWriter::Run(const std::shared_ptr<State>& state) {
  bool cut = false;  // a line may have been left in its middle
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->ending || !state->waiting.empty(); });
    if (state->waiting.empty()) return;
    std::string lines(cut ? 1 : 0, '\n');
    lines += std::exchange(state->waiting, {});
    const std::uint64_t count = std::exchange(state->lines, 0);
    const std::uint64_t unsaid = std::exchange(state->unsaid, 0);
    if (unsaid > 0) {
      lines += fmt::format("skein: note: {} lines of the log were lost: its reader was too slow, or its disk full\n", unsaid);
    }
    state->writing = true;
    lock.unlock();
    // Nobody is left to be told at once when the log itself cannot be written.
    cut = !WriteAll(state->descriptor, std::as_bytes(std::span(lines.data(), lines.size())), "the log").ok();
    lock.lock();
    if (cut) {
      state->lost += count;
      state->unsaid += count + unsaid;
    }
    state->writing = false;
    state->changed.notify_all();
  }
}

}  // namespace skein
