// SPDX-License-Identifier: Apache-2.0
//
// The words of an answer's status line and the writing of its headers.
#pragma once

#include <string>
#include <string_view>

namespace skein::server {

std::string_view ReasonOf(int status);  // "Not Found"

// Appends `name: value CRLF`. Control characters in the value become blanks: no value can start a header of its own.
void AppendHeader(std::string& out, std::string_view name, std::string_view value);

}  // namespace skein::server
