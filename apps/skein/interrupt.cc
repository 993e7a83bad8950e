// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <unistd.h>

#include <atomic>
#include <string_view>

namespace skein::app {
namespace {

// A signal handler has no other way to know what it is for.
std::atomic<Cancellation*> current{nullptr};

constexpr int kInterruptedExit = 130;
constexpr std::string_view kClearLine = "\r\x1b[K";

void End(int) {
  // Nothing else may be called here: the signal may have come in the middle of anything.
  if (::isatty(STDERR_FILENO) == 1) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kClearLine.data(), kClearLine.size());
  }
  ::_exit(kInterruptedExit);
}

void OnInterrupt(int) {
  if (Cancellation* cancellation = current.load()) cancellation->Cancel();
}

void OnFirstInterrupt(int signal) {
  std::signal(signal, End);
  OnInterrupt(signal);
}

}  // namespace

void EndOnInterrupt() {
  struct sigaction action {};
  ::sigaction(SIGINT, nullptr, &action);
  if (action.sa_handler == SIG_IGN) return;  // nohup, or a job in the background of a script
  action = {};
  action.sa_handler = End;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
}

InterruptGuard::InterruptGuard(Cancellation& cancellation, Mode mode) {
  current.store(&cancellation);
  struct sigaction action {};
  action.sa_handler = mode == Mode::kOnce ? OnFirstInterrupt : OnInterrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: reading ends too
  ::sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &before_, nullptr);
  current.store(nullptr);
}

}  // namespace skein::app
