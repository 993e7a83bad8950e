// SPDX-License-Identifier: Apache-2.0
//
// Commands that answer a line of JSON with a line of JSON: reading lines, and taking members out of them.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "context.h"

namespace skein::app {

// Calls `answer` with each line of standard input, parsed, and writes what it returns (JSON text) as a line.
// A line that cannot be answered is answered by {"error": …}, so that every line has its answer.
using AnswerLine = std::function<Result<std::string>(const boost::json::object& line)>;
Status AnswerLines(const AnswerLine& answer, Context& context);

// Parses a JSON text of bounded depth; `shown` is how errors call it.
Result<boost::json::value> ParseJson(std::string_view text, std::string_view shown);

// Members of a line. Absent ones give the fallback; a value of another kind is kInvalidArgument naming the key.
Result<bool> BoolMember(const boost::json::object& line, std::string_view key, bool fallback);
Result<std::string> TextMember(const boost::json::object& line, std::string_view key);

// A list of token ids: [1,2,3]. Errors name `shown`.
Result<std::vector<TokenId>> IdList(const boost::json::value& value, std::string_view shown);
// The same from text with commas: 1,2,3.
Result<std::vector<TokenId>> IdList(std::string_view text, std::string_view flag);

// Bytes of base64 text (RFC 4648, padding wanted).
Result<std::string> FromBase64(std::string_view text);

}  // namespace skein::app
