// SPDX-License-Identifier: Apache-2.0
#include "comm/transport.h"

#include <fmt/format.h>

namespace skein::comm {

void Transport::FailAt(int peer, std::string_view problem) {
  if (failed_) return;
  failed_ = true;
  status_ = Status(Code::kUnavailable, fmt::format("{}: rank {} {}", operation_, NameOf(peer), problem));
}

void Transport::FailWith(const Status& status) {
  if (failed_) return;
  failed_ = true;
  status_ = status;
}

}  // namespace skein::comm
