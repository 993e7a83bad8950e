// SPDX-License-Identifier: Apache-2.0
//
// What doctor looks at, as values, so that it can be tested without the machine it looks at.
#pragma once

#include <string>
#include <vector>

namespace skein::app {

struct Finding {
  std::string name;
  std::string status;   // "ok", "warn", "fail"
  std::string meaning;  // for people
  std::string fix;      // a command; empty when ok
};

// All findings about this machine. Fast: reads a few files of the kernel.
std::vector<Finding> ExamineMachine();

}  // namespace skein::app
