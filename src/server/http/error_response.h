// SPDX-License-Identifier: Apache-2.0
//
// Errors as OpenAI's clients read them: {"error": {"message", "type", "param", "code"}}, all four always there, null
// where there is nothing to say. Messages are ours, never a library's.
#pragma once

#include <string_view>

#include "base/status.h"
#include "server/http/http_request.h"

namespace skein::server {

// `param` is the request's field at fault; an empty `type` is the usual one of the status.
HttpResponse ErrorResponse(int status, std::string_view message, std::string_view param = "",
                           std::string_view code = "", std::string_view type = "");

int HttpStatusOf(const Status& status);

// The answer for an error that a request's reading or its generation ran into; an internal one shows no details.
HttpResponse ErrorResponseOf(const Status& status);

}  // namespace skein::server
