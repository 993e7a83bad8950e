// SPDX-License-Identifier: Apache-2.0
//
// Names that follow a request through logs and other services: X-Request-Id and W3C traceparent.
#pragma once

#include <string>
#include <string_view>

namespace skein::server {

bool IsRequestId(std::string_view text);    // 1..128 of [A-Za-z0-9._-]
std::string NewRequestId();                 // 32 random hex digits
bool IsTraceparent(std::string_view text);  // version 00 of W3C Trace Context, with ids that are not zero

}  // namespace skein::server
