// SPDX-License-Identifier: Apache-2.0
//
// Which variables a scope hides before it assigns them. In the reference every scope of a template is compiled with
// the names that it assigns: a scope that assigns `x`, and has not read it before, starts with `x` undefined, and the
// scopes within it see that, not a variable of the caller's of the same name. This finds those names once, at load.
#pragma once

#include "text/template_ast.h"

namespace skein::text::templates {

// Fills in the `hidden` lists of the program and its statements.
void AnalyzeScopes(Program& program);

}  // namespace skein::text::templates
