// SPDX-License-Identifier: Apache-2.0
//
// Ctrl-C as a wish and not as the end: while an InterruptGuard lives, SIGINT cancels its Cancellation. The first one
// only; in `once` mode a second Ctrl-C ends the program. Without a guard (a model is being loaded) SIGINT ends the program
// with the status that a shell expects, 130, and clears the line of a progress bar.
#pragma once

#include <csignal>

#include "skein/engine.h"

namespace skein::app {

// Called once, by main: what SIGINT does while there is no guard.
void EndOnInterrupt();

class InterruptGuard {
 public:
  enum class Mode { kOnce, kAlways };
  InterruptGuard(Cancellation& cancellation, Mode mode);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace skein::app
