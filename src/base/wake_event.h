// SPDX-License-Identifier: Apache-2.0
//
// WakeEvent ends a poll() of another thread: its descriptor is readable from Set to Clear.
//
// Thread rule: Set by any thread, Clear by the one that polls.
#pragma once

#include <cstdint>

#include "base/descriptor.h"
#include "base/status.h"

namespace skein {

class WakeEvent {
 public:
  // Errors: kMissing when there is no descriptor left.
  static Result<WakeEvent> Create();

  int descriptor() const { return event_.get(); }
  void Set() const;
  void Clear() const;

 private:
  explicit WakeEvent(Descriptor event) : event_(std::move(event)) {}
  Descriptor event_;
};

}  // namespace skein
