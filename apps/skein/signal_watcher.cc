// SPDX-License-Identifier: Apache-2.0
#include "signal_watcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace skein::app {

Result<std::unique_ptr<SignalWatcher>> SignalWatcher::Create(std::function<void(int)> on_signal) {
  std::unique_ptr<SignalWatcher> watcher(new SignalWatcher);
  watcher->on_signal_ = std::move(on_signal);
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGTERM);
  sigaddset(&wanted, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &wanted, &watcher->before_);
  watcher->signals_ = ::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  watcher->end_ = ::eventfd(0, EFD_CLOEXEC);
  if (watcher->signals_ < 0 || watcher->end_ < 0) {
    return MissingError(fmt::format("signals cannot be watched: {}; raise the limit of open files (ulimit -n)",
                                    std::strerror(errno)));
  }
  watcher->thread_ = std::thread([raw = watcher.get()] { raw->Loop(); });
  return watcher;
}

void SignalWatcher::Loop() {
  pollfd watched[] = {{signals_, POLLIN, 0}, {end_, POLLIN, 0}};
  while (true) {
    if (::poll(watched, 2, -1) < 0 && errno != EINTR) return;
    if (watched[1].revents != 0) return;
    signalfd_siginfo info{};
    while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      on_signal_(static_cast<int>(info.ssi_signo));
    }
  }
}

SignalWatcher::~SignalWatcher() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(end_, &one, sizeof one);
    thread_.join();
  }
  if (signals_ >= 0) ::close(signals_);
  if (end_ >= 0) ::close(end_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace skein::app
