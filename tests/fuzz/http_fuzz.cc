// SPDX-License-Identifier: Apache-2.0
//
// A connection's bytes through the parsers, whole and cut in two: both must read the same request, or refuse it the
// same way; and what is read must be inside the limits.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "server/http/chunk_parser.h"
#include "server/http/framing.h"
#include "server/http/gate.h"
#include "server/http/head_parser.h"
#include "server/http/target.h"

namespace {

using namespace skein::server;

struct Seen {
  ParseState state = ParseState::kMore;
  int status = 0;  // of a refusal
  std::size_t taken = 0;
  RequestHead head;
  std::string body;
};

Seen ReadHead(std::string_view bytes, std::size_t cut, const HttpLimits& limits) {
  HeadParser parser(limits);
  Seen seen;
  seen.taken = parser.Feed(bytes.substr(0, cut));
  if (seen.taken == cut) seen.taken += parser.Feed(bytes.substr(cut));
  seen.state = parser.state();
  if (seen.state == ParseState::kRefused) seen.status = parser.refusal().status;
  if (seen.state == ParseState::kDone) seen.head = parser.TakeHead();
  return seen;
}

Seen ReadChunks(std::string_view bytes, std::size_t cut, const HttpLimits& limits) {
  ChunkParser parser(limits);
  Seen seen;
  seen.taken = parser.Feed(bytes.substr(0, cut), seen.body);
  if (seen.taken == cut) seen.taken += parser.Feed(bytes.substr(cut), seen.body);
  seen.state = parser.state();
  if (seen.state == ParseState::kRefused) seen.status = parser.refusal().status;
  return seen;
}

void CheckSame(const Seen& a, const Seen& b) {
  SKEIN_CHECK(a.state == b.state);
  SKEIN_CHECK(a.status == b.status);
  SKEIN_CHECK(a.taken == b.taken);
  SKEIN_CHECK(a.body == b.body);
  SKEIN_CHECK(a.head.method == b.head.method);
  SKEIN_CHECK(a.head.target == b.head.target);
  SKEIN_CHECK(a.head.headers.size() == b.head.headers.size());
}

void CheckHead(const RequestHead& head, const HttpLimits& limits) {
  SKEIN_CHECK(head.headers.size() <= limits.header_count);
  SKEIN_CHECK(head.target.size() <= limits.target_bytes);
  for (const HttpHeader& header : head.headers) {
    SKEIN_CHECK(IsToken(header.name));
    SKEIN_CHECK(header.value.find_first_of("\r\n") == std::string::npos);
  }
  Framing framing;
  const bool framed = !ReadFraming(head, framing).has_value();
  std::size_t lengths = 0, codings = 0;
  head.Find("content-length", &lengths);
  head.Find("transfer-encoding", &codings);
  if (framed) SKEIN_CHECK(lengths + codings <= 1);
  std::string path, query;
  if (ReadTarget(head, path, query)) return;
  SKEIN_CHECK(path == "*" || path.front() == '/');
  SKEIN_CHECK(path.find('\0') == std::string::npos);
  const HostPolicy hosts({.address = "127.0.0.1", .port = 8000});
  const Gate gate(hosts, ApiKeys(), Router());
  static_cast<void>(gate.Admit(head, path));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  HttpLimits limits;
  limits.header_bytes = 600;  // small, so that inputs reach them
  limits.header_count = 8;
  limits.target_bytes = 100;
  limits.body_bytes = 3000;
  // The first byte says where to cut, and whether to begin with a head or with chunks.
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t cut = (data[0] >> 1) % (bytes.size() + 1);
  if ((data[0] & 1) != 0) {
    const Seen seen = ReadHead(bytes, bytes.size(), limits);
    CheckSame(seen, ReadHead(bytes, cut, limits));
    SKEIN_CHECK(seen.taken <= limits.header_bytes + 1);
    if (seen.state == ParseState::kDone) CheckHead(seen.head, limits);
  } else {
    const Seen seen = ReadChunks(bytes, bytes.size(), limits);
    CheckSame(seen, ReadChunks(bytes, cut, limits));
    SKEIN_CHECK(seen.body.size() <= limits.body_bytes);
  }
  return 0;
}
