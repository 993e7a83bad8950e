// SPDX-License-Identifier: Apache-2.0
//
// JSON from a file of a model folder, as untrusted data: bounded in depth and in the number of values, valid UTF-8,
// and no key twice in an object (Boost.JSON alone would keep the last, other programs the first).
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string_view>

#include "base/status.h"

namespace skein::formats {

// An object at the top. Errors are kInvalidFile and begin with `what`.
Result<boost::json::object> ParseJsonObject(std::string_view text, std::string_view what);

}  // namespace skein::formats
