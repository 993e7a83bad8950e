// SPDX-License-Identifier: Apache-2.0
#include "run_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/descriptor.h"
#include "supervisor/launcher.h"

namespace skein::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLookEveryMs = 50;
// After its output has ended a program has nothing more to do.
constexpr std::chrono::seconds kEndPatience{2};

std::string ErrorText() { return std::strerror(errno); }  // NOLINT: GNU's is safe in threads

}  // namespace

std::string FindProgram(std::string_view name) {
  if (name.find('/') != std::string_view::npos) return ::access(std::string(name).c_str(), X_OK) == 0 ? std::string(name) : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = fmt::format("{}/{}", folder, name);
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

Result<std::string> OwnProgram() {
  char program[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", program, sizeof program);
  if (length <= 0) return InternalError("the program's own file is needed to start it again, it cannot be found");
  return std::string(program, static_cast<std::size_t>(length));
}

std::string ShellWord(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

Result<ProgramOutcome> RunProgram(const std::string& path, const std::vector<std::string>& arguments, std::chrono::milliseconds patience,
                                  const std::vector<std::string>& environment) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return MissingError(fmt::format("no pipe can be had: {}; raise the limit of open files (ulimit -n)", ErrorText()));
  const skein::Descriptor near(ends[0]);
  skein::Descriptor far(ends[1]);
  SKEIN_ASSIGN_OR_RETURN(supervisor::Child child, supervisor::StartChild({path, arguments}, {}, environment, far.get()));
  far.Close();
  ::fcntl(near.get(), F_SETFL, O_NONBLOCK);
  ProgramOutcome outcome;
  const Clock::time_point deadline = Clock::now() + patience;
  bool open = true;
  while (open && Clock::now() < deadline) {
    pollfd watched{.fd = near.get(), .events = POLLIN, .revents = 0};
    ::poll(&watched, 1, kLookEveryMs);
    char block[4096];
    ssize_t got = 0;
    while ((got = ::read(near.get(), block, sizeof block)) > 0) {
      outcome.output.append(block, std::min(static_cast<std::size_t>(got), kProgramOutputMax - outcome.output.size()));
    }
    open = got < 0 && (errno == EAGAIN || errno == EINTR);
    // What it left behind may hold its output open.
    if (open && watched.revents == 0 && child.Ended()) open = false;
  }
  outcome.in_time = !open && child.WaitForEnd(kEndPatience);
  child.Kill();
  outcome.how = child.how();
  outcome.well = outcome.in_time && outcome.how == "ended with status 0";
  return outcome;
}

}  // namespace skein::app
