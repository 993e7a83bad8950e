// SPDX-License-Identifier: Apache-2.0
//
// A request's target taken apart: the path with its percent signs decoded, and the query as it was sent.
#pragma once

#include <optional>
#include <string>

#include "server/http/head_parser.h"
#include "server/http/refusal.h"

namespace skein::server {

// Reads `/path?query`, and `http://host/path?query` when its host is the Host header's. Refuses characters that no
// URI has, wrong percent signs, and control characters behind right ones.
std::optional<Refusal> ReadTarget(const RequestHead& head, std::string& path, std::string& query);

}  // namespace skein::server
