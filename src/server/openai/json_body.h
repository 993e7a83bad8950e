// SPDX-License-Identifier: Apache-2.0
//
// A request's body as strict JSON: one object at the top, valid UTF-8, bounded in depth, in the number of values and in
// the members of an object, no key twice (two programs could read it differently), no number beyond a double, nothing
// behind its end. The text is walked once before anything is built from it, so a hostile body costs no memory.
#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "server/openai/api_error.h"

namespace skein::server {

// Errors are 400 and name the field in which the body went wrong, or "body".
ApiResult<boost::json::object> ParseJsonBody(std::string_view body);

}  // namespace skein::server
