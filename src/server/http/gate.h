// SPDX-License-Identifier: Apache-2.0
//
// Gate decides from a request's head, before a byte of its body is read, whether it comes in: Host and Origin, then the
// API key, then the route. In this order, so that somebody without a key cannot even learn which routes there are.
#pragma once

#include <string>
#include <variant>

#include "server/http/api_keys.h"
#include "server/http/head_parser.h"
#include "server/http/host_policy.h"
#include "server/http/http_request.h"
#include "server/http/router.h"

namespace skein::server {

struct Admission {
  const Route* route = nullptr;
  std::string rest;    // what stood for the route's {id}
  std::string tenant;  // of the key
};

// A refused head. A hostile one ends its connection; others may go on when they bring no body.
struct TurnedAway {
  HttpResponse response;
  bool hostile = false;
};

class Gate {
 public:
  Gate(HostPolicy hosts, ApiKeys keys, Router router)
      : hosts_(std::move(hosts)), keys_(std::move(keys)), router_(std::move(router)) {}

  // `path` is the head's, decoded.
  std::variant<Admission, TurnedAway> Admit(const RequestHead& head, const std::string& path) const;

 private:
  HostPolicy hosts_;
  ApiKeys keys_;
  Router router_;
};

}  // namespace skein::server
