// SPDX-License-Identifier: Apache-2.0
//
// Threads that take no signals. Signals are the program's business: whoever waits for some has blocked them on its own
// threads, but a thread of ours may be older, and one that would take them is enough for SIGTERM to end the program.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace skein {

template <typename Function>
std::thread ThreadWithoutSignals(Function&& function) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::forward<Function>(function));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace skein
