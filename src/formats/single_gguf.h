// SPDX-License-Identifier: Apache-2.0
//
// A folder that holds one GGUF file stands for that file.
#pragma once

#include <string>

#include "base/status.h"

namespace skein::formats {

// The path of the only .gguf file in `folder` (of several parts: the first), or kInvalidFile that says what is there.
Result<std::string> SingleGgufIn(const std::string& folder);

}  // namespace skein::formats
