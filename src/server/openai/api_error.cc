// SPDX-License-Identifier: Apache-2.0
#include "server/openai/api_error.h"

namespace skein::server {

ApiError BadField(std::string_view field, std::string message) {
  return ApiError{.status = 400, .message = std::move(message), .param = std::string(field), .code = {}};
}

ApiError ApiErrorOf(const Status& status) {
  ApiError error{.status = 500, .message = status.message(), .param = status.field(), .code = {}};
  switch (status.code()) {
    case Code::kInvalidArgument:
    case Code::kLimit: error.status = 400; break;
    case Code::kUnavailable: error.status = 503; break;
    default: break;
  }
  return error;
}

}  // namespace skein::server
