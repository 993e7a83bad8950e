// SPDX-License-Identifier: Apache-2.0
#include "server/http/error_response.h"

#include "base/json_writer.h"

namespace skein::server {
namespace {

std::string_view TypeOf(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 503: return "service_unavailable_error";
    default: return status >= 500 && status != 501 && status != 505 ? "server_error" : "invalid_request_error";
  }
}

void TextOrNull(JsonWriter& json, std::string_view key, std::string_view text) {
  json.Key(key);
  if (text.empty()) {
    json.Null();
  } else {
    json.Text(text);
  }
}

}  // namespace

HttpResponse ErrorResponse(int status, std::string_view message, std::string_view param, std::string_view code,
                           std::string_view type) {
  JsonWriter json;
  json.BeginObject().Key("error").BeginObject();
  json.Member("message", message);
  json.Member("type", type.empty() ? TypeOf(status) : type);
  TextOrNull(json, "param", param);
  TextOrNull(json, "code", code);
  json.EndObject().EndObject();
  HttpResponse response;
  response.status = status;
  response.body = json.Take();
  return response;
}

int HttpStatusOf(const Status& status) {
  switch (status.code()) {
    case Code::kOk: return 200;
    case Code::kInvalidArgument: return 400;
    case Code::kLimit: return 400;
    case Code::kUnavailable: return 503;
    case Code::kCancelled: return 503;  // by us: the client would not be there to read it
    case Code::kMissing:
    case Code::kInvalidFile:
    case Code::kInternal: return 500;
  }
  return 500;
}

HttpResponse ErrorResponseOf(const Status& status) {
  const int http_status = HttpStatusOf(status);
  if (http_status == 500) return ErrorResponse(500, "the server failed at this request; its log says more");
  return ErrorResponse(http_status, status.message(), status.field());
}

}  // namespace skein::server
