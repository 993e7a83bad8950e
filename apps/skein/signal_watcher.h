// SPDX-License-Identifier: Apache-2.0
//
// SignalWatcher turns SIGTERM and SIGINT into calls on a thread of its own, where anything may be done, for a program
// that ends in order. Threads made while it lives do not get these signals themselves.
//
// Make it before other threads are made; destroy it after they have ended.
#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <thread>

#include "base/status.h"

namespace skein::app {

class SignalWatcher {
 public:
  // `on_signal` is called once for every signal, by the watcher's thread.
  static Result<std::unique_ptr<SignalWatcher>> Create(std::function<void(int signal)> on_signal);
  ~SignalWatcher();

 private:
  SignalWatcher() = default;
  void Loop();

  std::function<void(int)> on_signal_;
  sigset_t before_{};
  int signals_ = -1;  // signalfd
  int end_ = -1;      // eventfd: the destructor writes to it
  std::thread thread_;
};

}  // namespace skein::app
