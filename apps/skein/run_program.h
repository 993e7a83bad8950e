// SPDX-License-Identifier: Apache-2.0
//
// Other programs that a command needs: found, run with a limit of time, and heard. Never through a shell.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace skein::app {

// The path of a program as the PATH has it; empty: there is none. A name with a slash is a path already.
std::string FindProgram(std::string_view name);

// Where this program's file is.
Result<std::string> OwnProgram();

// `text` as one word of a POSIX shell.
std::string ShellWord(std::string_view text);

struct ProgramOutcome {
  bool in_time = true;  // false: it was ended, with all that it had started in its process group
  bool well = false;    // it ended by itself with status 0
  std::string how;      // "ended with status 1"
  std::string output;   // standard output and standard error, at most kProgramOutputMax bytes of them
};
inline constexpr std::size_t kProgramOutputMax = 1u << 20;

// Runs `path`, `environment` ("NAME=value") besides this process's. Errors: kMissing when no process can be had.
Result<ProgramOutcome> RunProgram(const std::string& path, const std::vector<std::string>& arguments, std::chrono::milliseconds patience,
                                  const std::vector<std::string>& environment = {});

}  // namespace skein::app
