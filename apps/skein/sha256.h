// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 (FIPS 180-4) of a file, to check what was downloaded.
#pragma once

#include <string>

#include "base/status.h"

namespace skein::app {

// 64 lower-case hexadecimal digits. Errors as reading a file has them.
Result<std::string> FileSha256(const std::string& path);

}  // namespace skein::app
