// SPDX-License-Identifier: Apache-2.0
#include "server/openai/serving.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "server/http/request_id.h"

namespace skein::server {

int Serving::RetryAfterSeconds() const {
  const double ahead = static_cast<double>(admission.waiting()) + 1;
  const double lanes = static_cast<double>(std::max<std::size_t>(admission.running(), 1));
  return static_cast<int>(std::clamp(std::ceil(mean_request_s * ahead / lanes), 1.0, 60.0));
}

std::string AnswerId(std::string_view prefix) {
  return std::string(prefix) + NewRequestId().substr(0, 24);
}

}  // namespace skein::server
