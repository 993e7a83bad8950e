// SPDX-License-Identifier: Apache-2.0
//
// HttpRequest is one whole request as the connection read it; HttpResponse one whole answer. Plain values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace skein::server {

struct HttpHeader {
  std::string name;  // in lower case
  std::string value;
};

struct HttpRequest {
  std::string method;
  std::string path;   // without the query
  std::string query;  // without the question mark
  std::string rest;   // what stood for the {id} of the route's path
  std::vector<HttpHeader> headers;
  std::string body;
  std::string peer;         // "127.0.0.1:51234"
  std::string id;           // X-Request-Id: the client's when it is well formed, else made here
  std::string traceparent;  // the client's, when it is valid (W3C Trace Context), else empty
  std::string tenant;       // whose API key it was; empty without keys

  // The first header of this name, given in lower case; nullptr when there is none.
  const std::string* Find(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::vector<HttpHeader> headers = {};
  std::string content_type = "application/json";
  std::string body = {};
};

}  // namespace skein::server
