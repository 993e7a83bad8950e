// SPDX-License-Identifier: Apache-2.0
#include "base/wake_event.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace skein {

Result<WakeEvent> WakeEvent::Create() {
  Descriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) {
    return MissingError(fmt::format("no descriptor for an event: {}; raise the limit of open files (ulimit -n)", std::strerror(errno)));
  }
  return WakeEvent(std::move(event));
}

void WakeEvent::Set() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);  // full is set, too
}

void WakeEvent::Clear() const {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = ::read(event_.get(), &count, sizeof count);
}

}  // namespace skein
