// SPDX-License-Identifier: Apache-2.0
//
// What a request's headers say about the bytes after them: how long the body is, and whether the connection stays.
// Only `Content-Length: digits` once, or `Transfer-Encoding: chunked` once, and never both.
#pragma once

#include <cstdint>
#include <optional>

#include "server/http/head_parser.h"
#include "server/http/refusal.h"

namespace skein::server {

struct Framing {
  enum class Body { kNone, kLength, kChunked };
  Body body = Body::kNone;
  std::uint64_t length = 0;  // bytes, with kLength
  bool keep_alive = true;
  bool expects_continue = false;
};

std::optional<Refusal> ReadFraming(const RequestHead& head, Framing& framing);

}  // namespace skein::server
