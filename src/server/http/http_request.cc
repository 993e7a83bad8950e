// SPDX-License-Identifier: Apache-2.0
#include "server/http/http_request.h"

namespace skein::server {

const std::string* HttpRequest::Find(std::string_view name) const {
  for (const HttpHeader& header : headers) {
    if (header.name == name) return &header.value;
  }
  return nullptr;
}

}  // namespace skein::server
