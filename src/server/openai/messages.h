// SPDX-License-Identifier: Apache-2.0
//
// The messages of a conversation, checked, in the form that chat templates expect: a role and a text each, and beside
// them whatever else the client sent (name, tool_call_id, reasoning_content …).
#pragma once

#include <boost/json/array.hpp>

#include "server/openai/api_error.h"

namespace skein::server {

// Parts of a content are joined by line ends; members that are null, and empty lists of tool calls, are left out, since
// templates ask whether they are there. Errors are 400 and name the member: "messages[2].role".
ApiResult<boost::json::array> ReadMessages(const boost::json::array& messages);

}  // namespace skein::server
