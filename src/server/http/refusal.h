// SPDX-License-Identifier: Apache-2.0
//
// Refusal says why bytes are no request that we serve: the HTTP status and a fixed sentence for the client. Reading
// functions of this folder return one where others return a Status, because the status is part of the protocol.
#pragma once

namespace skein::server {

struct Refusal {
  int status = 400;
  const char* message = "";
};

// What a parser that is fed piece by piece has reached.
enum class ParseState { kMore, kDone, kRefused };

}  // namespace skein::server
