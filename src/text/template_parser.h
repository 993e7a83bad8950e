// SPDX-License-Identifier: Apache-2.0
//
// Parses the source of a chat template into a Program. Pure function; every error of syntax is found here, at load.
#pragma once

#include <memory>
#include <string_view>

#include "base/status.h"
#include "text/template_ast.h"

namespace skein::text::templates {

Result<std::unique_ptr<const Program>> ParseTemplate(std::string_view source);

}  // namespace skein::text::templates
