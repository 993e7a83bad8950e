// SPDX-License-Identifier: Apache-2.0
//
// How an error leaves the program: one line on standard error, an exit status that tells its kind, and with --json an
// object on standard output.
#pragma once

#include "base/status.h"
#include "context.h"

namespace skein::app {

// 0 done, 1 unforeseen, 2 wrong usage, 3 missing on this machine, 4 invalid file, 5 unreachable, 6 refused, 130 interrupted.
int ExitCodeOf(Code code);

// Reports `status` and returns its exit status. A reader that has left is no error.
int Report(const Status& status, bool json, Context& context);

}  // namespace skein::app
