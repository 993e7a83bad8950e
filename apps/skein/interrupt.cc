// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <atomic>

namespace skein::app {
namespace {

// A signal handler has no other way to know what it is for.
std::atomic<Cancellation*> current{nullptr};

void OnInterrupt(int) {
  if (Cancellation* cancellation = current.load()) cancellation->Cancel();
}

}  // namespace

InterruptGuard::InterruptGuard(Cancellation& cancellation, Mode mode) {
  current.store(&cancellation);
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = mode == Mode::kOnce ? static_cast<int>(SA_RESETHAND) : 0;  // no SA_RESTART: reading ends too
  ::sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &before_, nullptr);
  current.store(nullptr);
}

}  // namespace skein::app
