// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

namespace skein {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalidArgument: return "invalid_argument";
    case Code::kMissing: return "missing";
    case Code::kInvalidFile: return "invalid_file";
    case Code::kUnavailable: return "unavailable";
    case Code::kLimit: return "limit";
    case Code::kCancelled: return "cancelled";
    case Code::kInternal: return "internal";
  }
  return "internal";
}

Status Status::WithContext(std::string_view prefix) const {
  return Status(code_, std::string(prefix) + ": " + message_, field_);
}

}  // namespace skein
